//! `roundtrip service` with interfering sockets of other programs or users.

use std::os::linux::net::SocketAddrExt as _;
use std::os::unix::net::{SocketAddr, UnixListener};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use rustix::net::{AddressFamily, SocketAddrUnix, SocketFlags, SocketType};

/// A process that is killed at the end of the test.
struct Running(Child);

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

fn list() -> (Duration, String) {
    let begin = Instant::now();
    let mut command = Command::new(env!("CARGO_BIN_EXE_roundtrip"));
    let output = command.args(["service", "list"]).stdin(Stdio::null()).output().unwrap();
    (begin.elapsed(), String::from_utf8_lossy(&output.stdout).into_owned())
}

#[test]
fn full_sockets_and_non_text_names_neither_hide_contexts_nor_block() {
    let listen = |name: &[u8], backlog| {
        let socket =
            rustix::net::socket_with(AddressFamily::UNIX, SocketType::STREAM, SocketFlags::CLOEXEC, None)
                .unwrap();
        rustix::net::bind(&socket, &SocketAddrUnix::new_abstract_name(name).unwrap()).unwrap();
        rustix::net::listen(&socket, backlog).unwrap();
        socket
    };
    // Each name sorts before all contexts. The sockets' queues are full, because no process
    // accepts.
    let full: Vec<_> = (0..8)
        .map(|number| {
            let name = format!("roundtrip-0-{}-{number}", std::process::id());
            let socket = listen(name.as_bytes(), 0);
            let address = SocketAddrUnix::new_abstract_name(name.as_bytes()).unwrap();
            let mut connected = Vec::new();
            loop {
                let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
                let one =
                    rustix::net::socket_with(AddressFamily::UNIX, SocketType::STREAM, flags, None).unwrap();
                if rustix::net::connect(&one, &address).is_err() {
                    break (socket, connected);
                }
                connected.push(one);
            }
        })
        .collect();
    let strange = format!("roundtrip-{}-", std::process::id());
    let _no_text = listen(&[strange.as_bytes(), b"\xff\xfe\n"].concat(), 1);

    let args = "ipc latency --driver emulated --stack hwbinder --callers other --rate 10/s --duration 10m";
    let mut command = Command::new(env!("CARGO_BIN_EXE_roundtrip"));
    command.args(args.split(' ')).stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    let running = Running(command.spawn().unwrap());
    let own = format!("roundtrip-{}-", running.0.id());
    let until = Instant::now() + Duration::from_secs(120);
    loop {
        let (took, page) = list();
        assert!(took < Duration::from_secs(60), "{took:?}");
        if page.contains(&own) {
            break;
        }
        assert!(Instant::now() < until, "the context is not listed: {page}");
    }
    drop(full);
}

#[test]
fn a_socket_of_another_user_is_sent_nothing() {
    if !rustix::process::geteuid().is_root() {
        return roundtrip_skips::skip(roundtrip_skips::Need::Root, "only root can be another user");
    }
    let name = format!("roundtrip-1-{}-0", std::process::id());
    // The kernel records the listening user when listening starts.
    let listener = std::thread::scope(|scope| {
        let listen = || {
            // This changes only the calling thread.
            rustix::thread::set_thread_res_uid(
                rustix::process::Uid::ROOT,
                rustix::process::Uid::from_raw(65_534),
                rustix::process::Uid::ROOT,
            )
            .unwrap();
            UnixListener::bind_addr(&SocketAddr::from_abstract_name(&name).unwrap()).unwrap()
        };
        scope.spawn(listen).join().unwrap()
    });
    let mut command = Command::new(env!("CARGO_BIN_EXE_roundtrip"));
    let output = command.args(["service", "list", "--context", &name]).stdin(Stdio::null()).output().unwrap();
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!(output.status.code(), Some(2), "{said}");
    assert!(said.contains("another user") && said.lines().count() == 1, "{said}");
    let (connection, _) = listener.accept().unwrap();
    assert_eq!(std::io::read_to_string(connection).unwrap(), "");
}
