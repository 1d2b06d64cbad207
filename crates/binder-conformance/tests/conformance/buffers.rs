//! The receive area: exhaustion, recovery, and the rules for freeing buffers.

use roundtrip_binder_driver::uapi::{TF_CLEAR_BUF, TransactionData};
use roundtrip_binder_driver::{Command, Return};

use crate::Device;
use crate::actor::{Actor, names, reply};
use crate::calls::pair;
use crate::message::Message;

/// A server with a small area, several clients.
fn small<D: Device>(device: &D, area: u64, clients: usize) -> (Actor, Vec<Actor>) {
    let server = Actor::new(&device.open_with_area(area));
    server.driver.become_context_manager(0x100).unwrap();
    server.write(&[Command::EnterLooper]).unwrap();
    (server, (0..clients).map(|_| Actor::new(&device.open())).collect())
}

pub(crate) fn a_full_area_refuses_and_recovers_when_a_buffer_is_freed<D: Device>() {
    let device = D::new();
    let (server, clients) = small(&device, 8192, 3);
    let first = clients[0].call(0, 1, &[1; 5000]);
    let received = server.next_call();
    assert_eq!(clients[1].call(0, 1, &[2; 5000]).wait(), [Return::FailedReply]);
    server.reply(b"").unwrap();
    assert_eq!(names(&first.wait()), ["TransactionComplete", "Reply"]);
    assert_eq!(
        clients[1].call(0, 1, &[2; 5000]).wait(),
        [Return::FailedReply],
        "a reply alone frees nothing"
    );
    server.write(&[Command::FreeBuffer(received.buffer)]).unwrap();
    let again = clients[2].call(0, 1, &[3; 5000]);
    assert_eq!(server.bytes(&server.next_call()), [3; 5000]);
    server.reply(b"").unwrap();
    assert_eq!(names(&again.wait()), ["TransactionComplete", "Reply"]);
}

pub(crate) fn freed_neighbours_merge<D: Device>() {
    let device = D::new();
    let (server, clients) = small(&device, 12 << 10, 1);
    let client = &clients[0];
    // Three buffers of 4 KiB fill the area; freed in each order, one of 12 KiB fits again.
    for order in [[0, 1, 2], [0, 2, 1], [1, 0, 2], [1, 2, 0], [2, 0, 1], [2, 1, 0]] {
        let held: Vec<TransactionData> = (0..3)
            .map(|_| {
                let call = client.call(0, 1, &[7; 4096]);
                let received = server.next_call();
                server.reply(b"").unwrap();
                call.wait();
                received
            })
            .collect();
        assert_eq!(client.call(0, 1, b"x").wait(), [Return::FailedReply]);
        for index in order {
            server.write(&[Command::FreeBuffer(held[index].buffer)]).unwrap();
        }
        let call = client.call(0, 1, &[9; 12 << 10]);
        let received = server.next_call();
        server.reply(b"").unwrap();
        server.write(&[Command::FreeBuffer(received.buffer)]).unwrap();
        assert_eq!(names(&call.wait()), ["TransactionComplete", "Reply"], "order {order:?}");
    }
}

pub(crate) fn a_large_payload_arrives_unchanged<D: Device>() {
    let device = D::new();
    let (server, client) = pair(&device);
    let bytes: Vec<u8> = (0..65536_u32).map(|i| (i % 251) as u8).collect();
    let call = client.call(0, 1, &bytes);
    let received = server.serve();
    assert_eq!(server.bytes(&received), bytes);
    let back: Vec<u8> = bytes.iter().rev().copied().collect();
    server.reply(&back).unwrap();
    let returns = call.wait();
    assert_eq!(client.bytes(&reply(&returns)), back);
}

pub(crate) fn a_buffer_is_freed_once_and_only_by_its_receiver<D: Device>() {
    let device = D::new();
    let (server, clients) = small(&device, 8192, 2);
    let first = clients[0].call(0, 1, &[1; 4000]);
    let received = server.next_call();
    // Another process uses the address, where it has no buffer.
    clients[1].write(&[Command::FreeBuffer(received.buffer), Command::FreeBuffer(0)]).unwrap();
    assert_eq!(server.bytes(&received), [1; 4000]);
    server.reply(b"").unwrap();
    first.wait();
    for _ in 0..3 {
        server.write(&[Command::FreeBuffer(received.buffer)]).unwrap();
    }
    // If the second and third free counted, more than the area would be free now.
    let call = clients[0].call(0, 1, &[1; 8192]);
    server.next_call();
    assert_eq!(clients[1].call(0, 1, b"x").wait(), [Return::FailedReply]);
    drop(call);
}

pub(crate) fn sizes_that_overflow_are_refused<D: Device>() {
    let device = D::new();
    let (_server, client) = pair(&device);
    for (size, offsets) in [(u64::MAX, 0), (u64::MAX - 8, 16), (1 << 40, 0), (0, u64::MAX - 7), (0, 4)] {
        let returns = client.run(move |desk| {
            let bytes = [0; 8];
            let mut description = crate::actor::data(0, 1, 0, &bytes);
            (description.data_size, description.offsets_size) = (size, offsets);
            description.offsets = bytes.as_ptr() as u64;
            desk.write_read(&[Command::Transaction(description)], &[&bytes])
        });
        assert_eq!(returns, [Return::FailedReply], "sizes {size} and {offsets}");
    }
}

/// Makes a call whose buffer the server frees immediately. Returns the first `length` bytes of the
/// buffer.
fn served(server: &Actor, client: &Actor, message: Message, length: u64) -> (TransactionData, Vec<u8>) {
    let call = message.call(client);
    let received = server.next_call();
    let lay = server.driver.received(received.buffer, length).expect("inside the area").to_vec();
    server.reply(b"").unwrap();
    server.write(&[Command::FreeBuffer(received.buffer)]).unwrap();
    client.write(&[Command::FreeBuffer(reply(&call.wait()).buffer)]).unwrap();
    (received, lay)
}

pub(crate) fn a_buffer_is_zeroed_when_it_is_freed_if_its_sender_requests_that<D: Device>() {
    let device = D::new();
    let (server, clients) = small(&device, 8192, 1);
    // Unfilled room for buffers contains the bytes of the last user.
    let look = || Message { room: 1024, ..Message::to(0).plain(&[1; 8]) };
    for (flags, left) in [(0, 7), (TF_CLEAR_BUF, 0)] {
        let (first, _) = served(&server, &clients[0], Message::to(0).flags(flags).plain(&[7; 1024]), 1024);
        let (second, lay) = served(&server, &clients[0], look(), 1024);
        assert_eq!(second.buffer, first.buffer);
        assert_eq!((&lay[..8], &lay[8..]), (&[1; 8][..], &[left; 1016][..]), "flags {flags:#x}");
    }
}

pub(crate) fn the_buffer_of_a_reply_is_zeroed_too<D: Device>() {
    let device = D::new();
    let (server, client) = pair(&device);
    server.write(&[Command::EnterLooper]).unwrap();
    let replied = |message: Message| {
        let call = client.call(0, 1, b"");
        server.next_call();
        message.reply(&server);
        let received = reply(&client.until_reply(call.wait()));
        let lay = client.driver.received(received.buffer, 1024).expect("inside the area").to_vec();
        client.write(&[Command::FreeBuffer(received.buffer)]).unwrap();
        (received.buffer, lay)
    };
    let (first, _) = replied(Message::to(0).flags(TF_CLEAR_BUF).plain(&[7; 1024]));
    let (second, lay) = replied(Message { room: 1024, ..Message::to(0).plain(&[1; 8]) });
    assert_eq!((second, &lay[8..]), (first, &[0; 1016][..]));
}

pub(crate) fn a_buffer_that_was_not_delivered_cannot_be_freed<D: Device>() {
    let device = D::new();
    let (server, clients) = small(&device, 8192, 2);
    let (first, _) = served(&server, &clients[0], Message::to(0).plain(&[1; 512]), 512);
    // It has the same address.
    let call = clients[0].call(0, 1, &[2; 512]);
    assert!(call.is_waiting());
    server.write(&[Command::FreeBuffer(first.buffer)]).unwrap();
    let other = clients[1].call(0, 1, &[3; 512]);
    assert!(other.is_waiting());
    let received = server.next_call();
    assert_eq!((received.buffer, server.bytes(&received)), (first.buffer, vec![2; 512]));
    server.reply(b"").unwrap();
    assert_eq!(names(&call.wait()), ["TransactionComplete", "Reply"]);
    assert_eq!(server.bytes(&server.next_call()), [3; 512]);
    server.reply(b"").unwrap();
    other.wait();
}

pub(crate) fn the_smallest_free_range_that_fits_is_used<D: Device>() {
    let device = D::new();
    let (server, clients) = small(&device, 16 << 10, 1);
    let client = &clients[0];
    let put = |bytes: usize| {
        let call = client.call(0, 1, &vec![5; bytes]);
        let received = server.next_call();
        server.reply(b"").unwrap();
        call.wait();
        received.buffer
    };
    let kept: Vec<u64> = [4096, 64, 1024, 64, 2048, 64].map(put).into();
    let (large, small, middle) = (kept[0], kept[2], kept[4]);
    // This does not depend on the order of frees or on the addresses.
    for order in [[small, large, middle], [large, small, middle], [middle, large, small]] {
        server.write(&order.map(Command::FreeBuffer)).unwrap();
        assert_eq!([put(1000), put(1600), put(3000)], [small, middle, large]);
    }
}

pub(crate) fn an_area_has_whole_pages<D: Device>() {
    let device = D::new();
    let page = rustix::param::page_size();
    // One byte more than a page, so two pages.
    let (server, clients) = small(&device, page as u64 + 1, 1);
    let bytes = vec![7; 2 * page - 64];
    let call = clients[0].call(0, 1, &bytes);
    assert_eq!(server.bytes(&server.next_call()), bytes);
    server.reply(b"").unwrap();
    assert_eq!(names(&call.wait()), ["TransactionComplete", "Reply"]);
}
