//! Oneway transactions: no reply, one at a time for each node, half of the area.

use roundtrip_binder_driver::uapi::TF_ONE_WAY;
use roundtrip_binder_driver::{Command, Return};

use crate::Device;
use crate::actor::{Actor, data, names};
use crate::calls::pair;
use crate::objects::{call_with_node, handle_in};

fn send(actor: &Actor, handle: u32, code: u32, bytes: &[u8]) -> Vec<Return> {
    let bytes = bytes.to_vec();
    actor.run(move |desk| {
        desk.write_read(&[Command::Transaction(data(handle, code, TF_ONE_WAY, &bytes))], &[&bytes])
    })
}

pub(crate) fn oneway_calls_to_one_node_are_served_in_order_one_at_a_time<D: Device>() {
    let device = D::new();
    let (server, client) = pair(&device);
    let second = Actor::new(&server.driver);
    for code in 1..=3 {
        assert_eq!(names(&send(&client, 0, code, b"")), ["TransactionComplete"]);
    }
    let first = server.serve();
    assert_eq!((first.code, first.sender_pid), (1, 0), "a oneway caller is not named");
    let waiting = second.start(|desk| desk.write_read(&[Command::EnterLooper], &[]));
    assert!(waiting.is_waiting(), "the next one waits until the first one's buffer is freed");
    server.write(&[Command::FreeBuffer(first.buffer)]).unwrap();
    let next = crate::actor::transaction(&waiting.wait());
    assert_eq!(next.code, 2);
    second.write(&[Command::FreeBuffer(next.buffer)]).unwrap();
    assert_eq!(server.next_call().code, 3);
}

pub(crate) fn oneway_calls_to_two_nodes_do_not_wait_for_each_other<D: Device>() {
    let device = D::new();
    let (server, client) = pair(&device);
    // The client calls two nodes: the context manager and one that the client itself owns for the
    // server.
    let given = call_with_node(&client, 0, 0x90, 0);
    let received = server.serve();
    let held = handle_in(&server, &received);
    server.write(&[Command::Acquire(held)]).unwrap();
    server.reply(b"").unwrap();
    let _ = given.wait();
    assert_eq!(names(&server.read()), ["TransactionComplete"]);
    assert_eq!(names(&send(&server, held, 1, b"")), ["TransactionComplete"]);
    assert_eq!(names(&send(&server, held, 2, b"")), ["TransactionComplete"]);
    assert_eq!(names(&send(&client, 0, 3, b"")).last().unwrap(), "TransactionComplete");
    assert_eq!(server.next_call().code, 3);
    client.write(&[Command::EnterLooper]).unwrap();
    assert_eq!(client.next_call().code, 1);
}

pub(crate) fn oneway_calls_may_use_half_of_the_area<D: Device>() {
    let device = D::new();
    let server = Actor::new(&device.open_with_area(16 << 10));
    server.driver.become_context_manager(0x100).unwrap();
    let client = Actor::new(&device.open());
    assert_eq!(names(&send(&client, 0, 1, &[0; 6000])), ["TransactionComplete"]);
    assert_eq!(names(&send(&client, 0, 2, &[0; 3000])), ["FailedReply"]);
    // A synchronous call may use the rest.
    let call = client.call(0, 3, &[0; 9000]);
    let first = server.serve();
    server.write(&[Command::FreeBuffer(first.buffer)]).unwrap();
    assert_eq!(server.next_call().code, 3);
    server.reply(b"").unwrap();
    assert_eq!(names(&call.wait()), ["TransactionComplete", "Reply"]);
    assert_eq!(names(&send(&client, 0, 4, &[0; 6000])).last().unwrap(), "TransactionComplete");
}
