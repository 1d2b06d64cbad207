//! Received data: copies do not change, and the buffer is freed once.

use roundtrip_binder_driver::uapi::{TF_ONE_WAY, TransactionData};
use roundtrip_binder_driver::{
    Command, Commands, Driver, Errno, Profile, ReadableMemory, Received, Return, Returns,
};
use roundtrip_binder_emulator::{Context, Emulated};

/// A server, and a client that sends to it.
struct Pair {
    _context: Context,
    server: Emulated,
    client: Emulated,
}

impl Pair {
    fn new() -> Self {
        let context = Context::create_unlisted(Profile::Ack).expect("a context");
        let server = Emulated::join(context.address(), 1 << 16).expect("the context");
        server.become_context_manager(0).expect("no manager yet");
        let mut enter = Commands::default();
        enter.push(Command::EnterLooper);
        server.write_read(&mut enter, &[], None).expect("a looper");
        let client = Emulated::join(context.address(), 1 << 16).expect("the context");
        Self { _context: context, server, client }
    }

    /// Sends these bytes in a oneway call. Returns the transaction that the server reads.
    fn send(&self, bytes: &[u8]) -> TransactionData {
        let mut commands = Commands::default();
        let sent = TransactionData { flags: TF_ONE_WAY, ..TransactionData::new(1, bytes) };
        commands.push(Command::Transaction(sent));
        self.client.write_read(&mut commands, &[bytes], None).expect("a queued call");
        self.next()
    }

    /// The next transaction that the server reads.
    fn next(&self) -> TransactionData {
        let mut returns = Returns::default();
        loop {
            self.server.write_read(&mut Commands::default(), &[], Some(&mut returns)).expect("the call");
            let transaction = returns.find_map(|item| match item {
                Return::Transaction(transaction) => Some(transaction),
                _ => None,
            });
            if let Some(transaction) = transaction {
                return transaction;
            }
        }
    }

    fn take(&self, transaction: &TransactionData) -> Received<'_> {
        Received::take(&self.server, transaction)
    }

    fn hand_over(&self, commands: &mut Commands) {
        self.server.write_read(commands, &[], None).expect("good commands");
    }
}

fn data(received: &Received<'_>) -> Vec<u8> {
    received.data().expect("inside the area").to_vec()
}

#[test]
fn copied_data_does_not_change_when_its_buffer_is_reused() {
    let pair = Pair::new();
    let transaction = pair.send(b"the first message");
    let received = pair.take(&transaction);
    let plain = pair.server.received(transaction.buffer, transaction.data_size).expect("inside the area");
    let (in_place, copied) = (received.data().expect("inside the area"), data(&received));
    let mut commands = Commands::default();
    assert!(received.release(&mut commands));
    pair.hand_over(&mut commands);
    let next = pair.send(b"THE SECOND MESSAGE");
    assert_eq!(next.buffer, transaction.buffer, "without reuse of the buffer, this test shows nothing");
    assert_eq!((&copied[..], &plain[..]), (&b"the first message"[..], &b"the first message"[..]));
    assert_eq!(in_place, b"THE SECOND MESSAG", "it is read in place");
    assert_eq!(data(&pair.take(&next)), b"THE SECOND MESSAGE");
}

/// Received data without objects can be passed on without a copy. Data with objects cannot, because
/// the driver would interpret memory that others may change.
#[test]
fn received_data_without_objects_is_sent_back_without_a_copy() {
    let pair = Pair::new();
    let received = pair.take(&pair.send(&[7; 16]));
    let raw = [received.data().expect("inside the area")];
    let offsets = 0_u64.to_ne_bytes();
    let without = TransactionData { flags: TF_ONE_WAY, ..TransactionData::naming(1, raw[0]) };
    let with = TransactionData { offsets: offsets.as_ptr() as u64, offsets_size: 8, ..without };
    let beyond = TransactionData { data_size: 17, ..without };
    for (sent, arrives) in [(without, true), (with, false), (beyond, false)] {
        let mut commands = Commands::default();
        commands.push(Command::Transaction(sent));
        let memory = ReadableMemory { own: &[&offsets], raw: &raw };
        let mut returns = Returns::default();
        // The manager cannot call itself. The driver accepts bytes in any area.
        pair.client.exchange(&mut commands, &memory, Some(&mut returns)).expect("good commands");
        let taken = returns.any(|item| item == Return::TransactionComplete);
        assert_eq!(taken, arrives, "{sent:?}");
    }
    // The next oneway call to a node is delivered when the earlier one's buffer is freed.
    drop(received);
    assert_eq!(data(&pair.take(&pair.next())), [7; 16]);
}

#[test]
fn dropping_received_data_frees_its_buffer() {
    let pair = Pair::new();
    let free_bytes = pair.server.free_area_bytes();
    let received = pair.take(&pair.send(b"message"));
    assert!(pair.server.free_area_bytes() < free_bytes);
    drop(received);
    assert_eq!(pair.server.free_area_bytes(), free_bytes);
}

#[test]
fn a_buffer_is_freed_once() {
    let pair = Pair::new();
    let received = pair.take(&pair.send(b"message"));
    let mut commands = Commands::default();
    assert!(received.release(&mut commands));
    let queued = commands.pending().len();
    assert!(!received.release(&mut commands), "it is given back");
    received.free(&mut commands);
    assert_eq!((queued, commands.pending().len()), (12, 12), "one BC_FREE_BUFFER");
    pair.hand_over(&mut commands);
    let transaction = pair.send(b"next");
    assert_eq!(data(&pair.take(&transaction)), b"next", "the memory is reused");
}

#[test]
fn data_outside_the_area_is_not_received() {
    let pair = Pair::new();
    let transaction = pair.send(b"message");
    for wrong in [
        TransactionData { buffer: transaction.buffer - (1 << 20), ..transaction },
        TransactionData { data_size: (1 << 16) + 1, ..transaction },
        TransactionData { offsets: u64::MAX - 4, offsets_size: 8, ..transaction },
    ] {
        let received = pair.take(&wrong);
        assert!(received.data().is_none() && received.offsets().is_none() && received.area().is_none());
        // The buffer is that of the message, which is freed below.
        std::mem::forget(received);
    }
    assert_eq!(data(&pair.take(&transaction)), b"message");
}

#[test]
fn room_for_less_than_one_return_is_refused() {
    let pair = Pair::new();
    for bytes in 1..4 {
        let (mut commands, mut returns) = (Commands::default(), Returns::with_room(bytes));
        commands.push(Command::EnterLooper);
        let refused = pair.server.write_read(&mut commands, &[], Some(&mut returns));
        assert_eq!(refused.expect_err("no room").errno(), Some(Errno::INVAL), "{bytes} bytes");
        assert_eq!(commands.pending().len(), 4, "no command is taken");
    }
}
