"""What one may do with topics and with the cluster, as `authorized_operations` bit fields.

There are no ACLs yet, so everybody may do everything. Pure.
Source: AclEntry.supportedOperations; AclOperation codes.
"""

TOPIC_OPERATIONS = sum(1 << operation for operation in (3, 4, 5, 6, 7, 8, 10, 11))
"""Read, write, create, delete, alter, describe; describe and alter configs."""
CLUSTER_OPERATIONS = sum(1 << operation for operation in (5, 7, 8, 9, 10, 11, 12))
"""Create, alter, describe, cluster action; describe and alter configs; idempotent write."""
NOT_ASKED = -(1 << 31)
"""What stands there when the request does not ask, and for a topic that is in error."""
