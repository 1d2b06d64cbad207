"""The device's side of adb's protocol over TCP. Its shell is this machine's.

It implements what `adb shell` needs: the greeting, streams with acknowledgements, and the shell
protocol, which separates standard output, standard error and the exit status. Like adbd, it ends a
command whose stream was closed with SIGHUP and closed pipes.
"""

import contextlib
import os
import queue
import signal
import socket
import struct
import subprocess
import threading

# The commands of messages: four letters in memory order.
CNXN, AUTH, OPEN, OKAY, WRTE, CLSE = (int.from_bytes(word, "little") for word in
                                      (b"CNXN", b"AUTH", b"OPEN", b"OKAY", b"WRTE", b"CLSE"))  # fmt: skip
HEADER = struct.Struct("<6I")
VERSION, LARGEST = 0x01000001, 1 << 18
BANNER = b"device::ro.product.name=double;ro.product.model=double;ro.product.device=double;features=shell_v2,cmd"
# Packets of the shell protocol.
PACKET = struct.Struct("<BI")
STDIN, STDOUT, STDERR, EXIT, CLOSE_STDIN = range(5)


class Device:
    """Listens on a loopback port. `manner` is `willing`, `unauthorized` or `silent`."""

    def __init__(self, manner="willing"):
        self.manner = manner
        self.listener = socket.create_server(("127.0.0.1", 0))
        self.serial = f"127.0.0.1:{self.listener.getsockname()[1]}"
        self.connections = []
        threading.Thread(target=self.listen, daemon=True).start()

    def listen(self):
        with contextlib.suppress(OSError):
            while True:
                connection = Connection(self.listener.accept()[0], self.manner)
                self.connections.append(connection)
                threading.Thread(target=connection.serve, daemon=True).start()

    def vanish(self):
        """Disconnects for good, like a device whose cable is pulled."""
        # `shutdown` wakes the threads that wait on the sockets; `close` would not.
        for one in (self.listener, *(connection.socket for connection in self.connections)):
            with contextlib.suppress(OSError):
                one.shutdown(socket.SHUT_RDWR)
        self.listener.close()


class Connection:
    """The connection to one adb server."""

    def __init__(self, connected, manner):
        self.socket, self.manner = connected, manner
        self.incoming = connected.makefile("rb")
        self.sending = threading.Lock()
        self.streams = {}

    def serve(self):
        """Answers messages until the connection ends, and then ends its commands."""
        with contextlib.suppress(OSError, struct.error):
            while True:
                command, first, second, length, _, _ = HEADER.unpack(self.incoming.read(HEADER.size))
                self.answer(command, first, second, self.incoming.read(length))
        for stream in list(self.streams.values()):
            stream.end()

    def answer(self, command, first, second, content):
        if command in (CNXN, AUTH) and self.manner == "unauthorized":
            # Requests a signature. After it has received the key, it waits for the user's confirmation.
            if command == CNXN or first == 2:
                self.send(AUTH, 1, 0, bytes(20))
        elif command == CNXN and self.manner == "willing":
            self.send(CNXN, VERSION, LARGEST, BANNER)
        elif command == OPEN:
            service, _, script = content.rstrip(b"\0").decode().partition(":")
            kind, *words = service.split(",")
            if kind == "shell" and "v2" in words and "raw" in words:
                self.streams[first] = Stream(self, first, script)
            else:
                self.send(CLSE, 0, first)
        elif command == OKAY and first in self.streams:
            self.streams[first].acknowledged.release()
        elif command == WRTE and first in self.streams:
            self.streams[first].incoming.put(content)
        elif command == CLSE and first in self.streams:
            self.streams.pop(first).end()

    def send(self, command, first, second, content=b""):
        message = HEADER.pack(command, first, second, len(content), sum(content), command ^ 0xFFFFFFFF)
        with self.sending:
            self.socket.sendall(message + content)


class Stream:
    """One shell. Both sides identify it by the number that the server assigned."""

    def __init__(self, connection, number, script):
        self.connection, self.number = connection, number
        self.acknowledged = threading.Semaphore(0)
        self.writing = threading.Lock()
        self.incoming = queue.SimpleQueue()
        self.process = subprocess.Popen(
            ["sh", "-c", script], stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, bufsize=0,
            start_new_session=True,
        )  # fmt: skip
        connection.send(OKAY, number, number)
        threading.Thread(target=self.run, daemon=True).start()
        threading.Thread(target=self.feed, daemon=True).start()

    def run(self):
        """Sends the shell's output and exit status."""
        pipes = [(self.process.stdout, STDOUT), (self.process.stderr, STDERR)]
        readers = [threading.Thread(target=self.forward, args=pair, daemon=True) for pair in pipes]
        for reader in readers:
            reader.start()
        for reader in readers:
            reader.join()
        with contextlib.suppress(OSError):
            self.write(EXIT, bytes([self.process.wait() & 0xFF]))
            self.connection.send(CLSE, self.number, self.number)

    def forward(self, pipe, kind):
        with contextlib.suppress(OSError, ValueError):
            while content := pipe.read(1 << 16):
                self.write(kind, content)

    def write(self, kind, content):
        """Sends one packet, and waits for its acknowledgement."""
        with self.writing:
            self.connection.send(WRTE, self.number, self.number, PACKET.pack(kind, len(content)) + content)
            self.acknowledged.acquire()

    def feed(self):
        """Passes input to the shell. A message may contain parts of packets."""
        received = bytearray()
        while content := self.incoming.get():
            received += content
            while len(received) >= PACKET.size:
                kind, length = PACKET.unpack_from(received)
                if len(received) < PACKET.size + length:
                    break
                inside = received[PACKET.size : PACKET.size + length]
                del received[: PACKET.size + length]
                with contextlib.suppress(OSError, ValueError):
                    if kind == STDIN:
                        self.process.stdin.write(inside)
                    elif kind == CLOSE_STDIN:
                        self.process.stdin.close()
            with contextlib.suppress(OSError):
                self.connection.send(OKAY, self.number, self.number)

    def end(self):
        """Ends the shell after the other side has closed the stream."""
        self.acknowledged.release(1 << 16)
        self.incoming.put(b"")
        with contextlib.suppress(OSError):
            os.kill(self.process.pid, signal.SIGHUP)
        for pipe in (self.process.stdin, self.process.stdout, self.process.stderr):
            with contextlib.suppress(OSError):
                pipe.close()
