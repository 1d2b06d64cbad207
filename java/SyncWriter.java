import java.io.BufferedReader;
import java.io.DataOutputStream;
import java.io.BufferedOutputStream;
import java.io.IOException;
import java.io.InputStreamReader;
import java.io.RandomAccessFile;
import java.nio.ByteBuffer;
import java.nio.channels.FileChannel;
import java.nio.file.Files;
import java.nio.file.OpenOption;
import java.nio.file.Paths;
import java.nio.file.StandardOpenOption;
import java.util.HashSet;
import java.util.Set;

/**
 * The application of the storage measurement: writes synchronously to an existing file, and times
 * each call with System.nanoTime (CLOCK_MONOTONIC on Linux). Runs from its source on any Java since
 * 11, or as a dex on Android's runtime. It reads requests from standard input and answers on
 * standard output, in the byte order of DataOutput.
 *
 * <p>Arguments: FILE API MODE, with API one of java-file, java-channel, java-channel-direct, and
 * MODE one of sync, dsync, fsync, fdatasync. It first writes its thread id and its virtual machine
 * (two UTF strings). There is one request per line: {@code clock} is answered with the time; {@code
 * block BYTES CALLS WARMUP START END} writes BYTES at a time from position START on, and continues
 * at START before END is exceeded. The answer has the start and end of each call after the first
 * WARMUP ones. An answer starts with 0, or with 1 and an error message. The program ends with its
 * standard input.
 */
public final class SyncWriter {
    private interface Target {
        void seek(long position) throws IOException;

        void write() throws IOException;
    }

    private SyncWriter() {}

    public static void main(String[] arguments) throws IOException {
        DataOutputStream answers = new DataOutputStream(new BufferedOutputStream(System.out, 1 << 16));
        if (arguments.length != 3) {
            System.err.println("SyncWriter: FILE API MODE are needed");
            System.exit(2);
        }
        answers.writeUTF(Files.readSymbolicLink(Paths.get("/proc/thread-self")).getFileName().toString());
        answers.writeUTF(System.getProperty("java.vm.name") + " " + System.getProperty("java.vm.version"));
        answers.flush();
        BufferedReader orders = new BufferedReader(new InputStreamReader(System.in));
        for (String line = orders.readLine(); line != null; line = orders.readLine()) {
            String[] words = line.split(" ");
            if (words[0].equals("clock")) {
                answers.writeInt(0);
                answers.writeLong(System.nanoTime());
            } else {
                long[] times = null;
                try {
                    times = block(arguments, words);
                } catch (IOException | RuntimeException error) {
                    answers.writeInt(1);
                    answers.writeUTF(String.valueOf(error.getMessage()));
                }
                if (times != null) {
                    answers.writeInt(0);
                    for (long time : times) {
                        answers.writeLong(time);
                    }
                }
            }
            answers.flush();
        }
    }

    private static long[] block(String[] arguments, String[] order) throws IOException {
        int bytes = Integer.parseInt(order[1]);
        int calls = Integer.parseInt(order[2]);
        int warmUp = Integer.parseInt(order[3]);
        long first = Long.parseLong(order[4]);
        long end = Long.parseLong(order[5]);
        long[] times = new long[2 * calls];
        try (FileHolder holder = new FileHolder(arguments[0], arguments[1], arguments[2], bytes)) {
            Target target = holder.target;
            long position = first;
            for (int call = -warmUp; call < calls; call++) {
                if (position + bytes > end) {
                    position = first;
                }
                target.seek(position);
                position += bytes;
                long begin = System.nanoTime();
                target.write();
                long done = System.nanoTime();
                if (call >= 0) {
                    times[2 * call] = begin;
                    times[2 * call + 1] = done;
                }
            }
        }
        return times;
    }

    /** The file, opened through one of Java's APIs. */
    private static final class FileHolder implements AutoCloseable {
        final Target target;
        private final AutoCloseable opened;

        FileHolder(String path, String api, String mode, int bytes) throws IOException {
            if (api.equals("java-file")) {
                RandomAccessFile file = new RandomAccessFile(path, openMode(mode));
                byte[] data = filled(new byte[bytes]);
                opened = file;
                target = new Target() {
                    @Override
                    public void seek(long position) throws IOException {
                        file.seek(position);
                    }

                    @Override
                    public void write() throws IOException {
                        file.write(data);
                        if (mode.equals("fsync")) {
                            file.getFD().sync();
                        } else if (mode.equals("fdatasync")) {
                            file.getChannel().force(false);
                        }
                    }
                };
                return;
            }
            Set<OpenOption> options = new HashSet<>();
            options.add(StandardOpenOption.WRITE);
            if (mode.equals("sync")) {
                options.add(StandardOpenOption.SYNC);
            } else if (mode.equals("dsync")) {
                options.add(StandardOpenOption.DSYNC);
            }
            FileChannel channel = FileChannel.open(Paths.get(path), options);
            byte[] data = filled(new byte[bytes]);
            ByteBuffer buffer = ByteBuffer.wrap(data);
            if (api.equals("java-channel-direct")) {
                buffer = ByteBuffer.allocateDirect(bytes);
                buffer.put(data);
            }
            final ByteBuffer source = buffer;
            opened = channel;
            target = new Target() {
                @Override
                public void seek(long position) throws IOException {
                    channel.position(position);
                    source.clear();
                }

                @Override
                public void write() throws IOException {
                    while (source.hasRemaining()) {
                        channel.write(source);
                    }
                    if (mode.equals("fsync")) {
                        channel.force(true);
                    } else if (mode.equals("fdatasync")) {
                        channel.force(false);
                    }
                }
            };
        }

        @Override
        public void close() throws IOException {
            try {
                opened.close();
            } catch (IOException error) {
                throw error;
            } catch (Exception error) {
                throw new IOException(error);
            }
        }

        private static String openMode(String mode) {
            switch (mode) {
                case "sync":
                    return "rws";
                case "dsync":
                    return "rwd";
                default:
                    return "rw";
            }
        }

        private static byte[] filled(byte[] data) {
            for (int at = 0; at < data.length; at++) {
                data[at] = (byte) (at * 31 + 7);
            }
            return data;
        }
    }
}
