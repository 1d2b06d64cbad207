//! What was received: it stays as it was, and its buffer is given back once.

use binder_driver::uapi::{TF_ONE_WAY, TransactionData};
use binder_driver::{Command, Commands, Content, Driver, Errno, Profile, Received, Return, Returns};
use binder_emulator::{Context, Emulated};

/// A process that others send to, and one that sends to it.
struct Pair {
    _context: Context,
    server: Emulated,
    client: Emulated,
}

impl Pair {
    fn new() -> Self {
        let context = Context::create(Profile::Ack).expect("a context");
        let server = Emulated::join(context.address(), 1 << 16).expect("the context");
        server.become_context_manager(0).expect("no manager yet");
        let mut enter = Commands::default();
        enter.push(Command::EnterLooper);
        server.write_read(&mut enter, &[], None).expect("a looper");
        let client = Emulated::join(context.address(), 1 << 16).expect("the context");
        Self { _context: context, server, client }
    }

    /// Sends these bytes oneway; what the server is told of them.
    fn send(&self, bytes: &[u8]) -> TransactionData {
        let mut commands = Commands::default();
        let sent = TransactionData { flags: TF_ONE_WAY, ..TransactionData::new(1, bytes) };
        commands.push(Command::Transaction(sent));
        self.client.write_read(&mut commands, &[bytes], None).expect("a queued call");
        let mut returns = Returns::default();
        loop {
            self.server.write_read(&mut Commands::default(), &[], Some(&mut returns)).expect("the call");
            let told = returns.find_map(|item| match item {
                Return::Transaction(told) => Some(told),
                _ => None,
            });
            if let Some(told) = told {
                return told;
            }
        }
    }

    fn take(&self, told: &TransactionData) -> Received<'_> {
        Received::take(&self.server, told, Box::default())
    }

    fn hand_over(&self, commands: &mut Commands) {
        self.server.write_read(commands, &[], None).expect("good commands");
    }
}

fn data<'a>(received: &'a Received<'_>) -> &'a [u8] {
    received.content().expect("inside the area").data()
}

#[test]
fn what_was_received_stays_as_it_was_when_its_buffer_is_used_again() {
    let pair = Pair::new();
    let told = pair.send(b"the first message");
    let received = pair.take(&told);
    let plain = pair.server.received(told.buffer, told.data_size).expect("inside the area");
    assert_eq!(data(&received), b"the first message");
    let mut commands = Commands::default();
    assert!(received.release(&mut commands));
    pair.hand_over(&mut commands);
    let next = pair.send(b"THE SECOND MESSAGE");
    assert_eq!(next.buffer, told.buffer, "the buffer is used again, else this shows nothing");
    assert_eq!((data(&received), &*plain), (&b"the first message"[..], &b"the first message"[..]));
    assert_eq!(data(&pair.take(&next)), b"THE SECOND MESSAGE");
}

#[test]
fn a_buffer_is_given_back_when_what_was_received_is_dropped() {
    let pair = Pair::new();
    let free_bytes = pair.server.free_area_bytes();
    let received = pair.take(&pair.send(b"message"));
    assert!(pair.server.free_area_bytes() < free_bytes);
    drop(received);
    assert_eq!(pair.server.free_area_bytes(), free_bytes);
}

#[test]
fn a_buffer_is_given_back_once() {
    let pair = Pair::new();
    let received = pair.take(&pair.send(b"message"));
    let mut commands = Commands::default();
    assert!(received.release(&mut commands));
    let queued = commands.pending().len();
    assert!(!received.release(&mut commands), "it is given back");
    let room = received.free(&mut commands);
    assert_eq!((queued, commands.pending().len()), (12, 12), "one BC_FREE_BUFFER");
    pair.hand_over(&mut commands);
    let told = pair.send(b"next");
    assert_eq!(data(&Received::take(&pair.server, &told, room)), b"next", "the memory is used again");
}

#[test]
fn what_lies_outside_the_area_is_not_received() {
    let pair = Pair::new();
    let told = pair.send(b"message");
    for wrong in [
        TransactionData { buffer: told.buffer - (1 << 20), ..told },
        TransactionData { data_size: (1 << 16) + 1, ..told },
        TransactionData { offsets: u64::MAX - 4, offsets_size: 8, ..told },
    ] {
        let mut content = Content::default();
        assert!(!content.copy(&pair.server, &wrong));
        assert_eq!((content.data(), content.offsets()), (&[][..], &[][..]));
    }
    assert_eq!(data(&pair.take(&told)), b"message");
}

#[test]
fn room_for_less_than_one_return_is_refused() {
    let pair = Pair::new();
    for bytes in 1..4 {
        let mut returns = Returns::with_room(bytes);
        let refused = pair.server.write_read(&mut Commands::default(), &[], Some(&mut returns));
        assert_eq!(refused.expect_err("no room").errno(), Some(Errno::INVAL), "{bytes} bytes");
    }
}
