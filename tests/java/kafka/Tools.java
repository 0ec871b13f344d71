import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.node.ObjectNode;
import java.io.ByteArrayInputStream;
import java.io.ByteArrayOutputStream;
import java.io.InputStream;
import java.io.PrintStream;
import java.lang.reflect.InvocationTargetException;
import java.net.URL;
import java.net.URLClassLoader;
import java.nio.charset.StandardCharsets;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.List;
import org.apache.kafka.common.utils.Exit;

/**
 * Kafka's command-line tools, one after the other in this JVM: {"main", "args", "stdin"} gives {"code", "out", "err"}.
 *
 * <p>Each run has a loader of its own for the jars of the tools, because they keep counts in static fields. A tool
 * that exits is thrown out of by the exit procedure; its shutdown hooks run then.
 */
final class Tools {
    private final List<Runnable> hooks = new ArrayList<>();
    private Integer code;

    /** A tool's way out; an Error, so that what catches exceptions lets it through. */
    private static final class Exited extends Error {
        private static final long serialVersionUID = 1;

        Exited() {
            super("exit", null, false, false);
        }
    }

    Tools() {
        Exit.setExitProcedure((status, message) -> leave(status, message));
        Exit.setHaltProcedure((status, message) -> leave(status, message));
        Exit.setShutdownHookAdder((name, hook) -> hooks.add(hook));
    }

    synchronized ObjectNode run(JsonNode command) throws Exception {
        PrintStream out = System.out;
        PrintStream err = System.err;
        InputStream in = System.in;
        ByteArrayOutputStream printed = new ByteArrayOutputStream();
        ByteArrayOutputStream complained = new ByteArrayOutputStream();
        code = null;
        hooks.clear();
        System.setOut(new PrintStream(printed, true, StandardCharsets.UTF_8));
        System.setErr(new PrintStream(complained, true, StandardCharsets.UTF_8));
        System.setIn(new ByteArrayInputStream(command.path("stdin").asText().getBytes(StandardCharsets.UTF_8)));
        try {
            main(command.get("main").asText(), Json.strings(command.get("args")).toArray(new String[0]));
            for (Runnable hook : List.copyOf(hooks)) {
                hook.run();
            }
        } finally {
            System.setOut(out);
            System.setErr(err);
            System.setIn(in);
        }
        return Json.object().put("code", code == null ? 0 : code).put("out", printed.toString(StandardCharsets.UTF_8))
                .put("err", complained.toString(StandardCharsets.UTF_8));
    }

    private void main(String name, String[] args) throws Exception {
        ClassLoader before = Thread.currentThread().getContextClassLoader();
        try (ToolLoader loader = new ToolLoader(before)) {
            Thread.currentThread().setContextClassLoader(loader);
            loader.loadClass(name).getMethod("main", String[].class).invoke(null, (Object) args);
        } catch (InvocationTargetException thrown) {
            if (!(thrown.getCause() instanceof Exited)) {
                thrown.getCause().printStackTrace(System.err);
                code = code == null ? 1 : code;
            }
        } finally {
            Thread.currentThread().setContextClassLoader(before);
        }
    }

    private void leave(int status, String message) {
        if (code == null) {  // a tool that catches everything exits twice
            code = status;
            if (message != null) {
                System.err.println(message);
            }
        }
        throw new Exited();
    }

    /** Loads the classes of the tools anew, everything else where it is loaded already. */
    private static final class ToolLoader extends URLClassLoader {
        ToolLoader(ClassLoader parent) throws Exception {
            super(tools(), parent);
        }

        private static URL[] tools() throws Exception {
            List<URL> jars = new ArrayList<>();
            for (String each : System.getProperty("java.class.path").split(java.io.File.pathSeparator)) {
                String jar = Path.of(each).getFileName().toString();
                if (jar.startsWith("kafka-tools-4") || jar.startsWith("kafka_2.13-")) {
                    jars.add(Path.of(each).toUri().toURL());
                }
            }
            return jars.toArray(new URL[0]);
        }

        @Override
        protected Class<?> loadClass(String name, boolean resolve) throws ClassNotFoundException {
            boolean own = name.startsWith("org.apache.kafka.tools.") || name.startsWith("kafka.");
            synchronized (getClassLoadingLock(name)) {
                if (own && findLoadedClass(name) == null && findResource(name.replace('.', '/') + ".class") != null) {
                    return findClass(name);
                }
                return super.loadClass(name, resolve);
            }
        }
    }
}
