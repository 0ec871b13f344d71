"""A SCRAM client for tests, by RFC 5802 to the letter, and nothing of the server's code."""

import base64
import hashlib
import hmac


class Client:
    """One exchange."""

    def __init__(self, hash_name: str, user: str, password: str, nonce: str = "abc") -> None:
        self.hash_name = hash_name
        self.password = password
        self.nonce = nonce
        escaped = user.replace("=", "=3D").replace(",", "=2C")
        self.bare = f"n={escaped},r={nonce}"
        self.signature = b""

    def first(self, gs2: str = "n,,", more: str = "") -> bytes:
        self.gs2 = gs2
        self.bare += more
        return f"{gs2}{self.bare}".encode()

    def final(self, challenge: bytes, nonce: str = "") -> bytes:
        """Prove it; `nonce`: another one than the server's."""
        text = challenge.decode()
        parts = dict(each.split("=", 1) for each in text.split(","))
        assert parts["r"].startswith(self.nonce)
        assert len(parts["r"]) > len(self.nonce)
        salt = base64.b64decode(parts["s"])
        salted = hashlib.pbkdf2_hmac(self.hash_name, self.password.encode(), salt, int(parts["i"]))
        without_proof = (
            f"c={base64.b64encode(self.gs2.encode()).decode()},{nonce or 'r=' + parts['r']}"
        )
        signed = f"{self.bare},{text},{without_proof}".encode()
        client_key = self._mac(salted, b"Client Key")
        signature = self._mac(hashlib.new(self.hash_name, client_key).digest(), signed)
        proof = bytes(a ^ b for a, b in zip(client_key, signature, strict=True))
        self.signature = self._mac(self._mac(salted, b"Server Key"), signed)
        return f"{without_proof},p={base64.b64encode(proof).decode()}".encode()

    def is_server(self, message: bytes) -> bool:
        """Whether the server knows the password's key, too."""
        return message == b"v=" + base64.b64encode(self.signature)

    def _mac(self, key: bytes, message: bytes) -> bytes:
        return hmac.new(key, message, self.hash_name).digest()
