//! Oneway spam: a sender that fills an area with oneway calls is notified of it, once.

use roundtrip_binder_driver::Return;
use roundtrip_binder_driver::uapi::*;

use crate::Device;
use crate::actor::Actor;
use crate::message::Message;

const AREA: u64 = 64 << 10;

/// The returns of `count` oneway calls of `bytes` bytes to a server that reads nothing: the first
/// letter of each (C complete, S suspect, F failed).
fn send(client: &Actor, count: usize, bytes: usize) -> String {
    let letter = |item: &Return| match item {
        Return::TransactionComplete => 'C',
        Return::OnewaySpamSuspect => 'S',
        Return::FailedReply => 'F',
        other => panic!("{other:?}"),
    };
    let one = || Message::to(0).flags(TF_ONE_WAY).plain(&vec![1; bytes]).call(client).wait();
    (0..count).flat_map(|_| one().iter().map(letter).collect::<Vec<_>>()).collect()
}

fn server_with_client<D: Device>(device: &D, on: bool) -> (Actor, Actor) {
    let server = Actor::new(&device.open_with_area(AREA));
    server.driver.become_context_manager(0x100).unwrap();
    (server, client_of(device, on))
}

fn client_of<D: Device>(device: &D, on: bool) -> Actor {
    let client = Actor::new(&device.open());
    client.run(move |desk| desk.driver.set_oneway_spam_detection(on).expect("a driver that detects"));
    client
}

/// Run lengths, for readable failures.
fn runs(letters: &str) -> String {
    let mut text = String::new();
    let mut left = letters;
    while let Some(first) = left.chars().next() {
        let rest = left.trim_start_matches(first);
        text += &format!("{first}{} ", left.len() - rest.len());
        left = rest;
    }
    text
}

pub(crate) fn the_sender_of_too_many_oneway_bytes_is_reported_once<D: Device>() {
    let device = D::new();
    let (_server, client) = server_with_client(&device, true);
    // Oneway calls have 32 KiB; from less than 6553 bytes left on, a sender with more than 16 KiB
    // is suspected.
    assert_eq!(runs(&send(&client, 40, 1024)), "C25 S1 C6 F8 ");
}

pub(crate) fn spam_is_not_reported_without_a_request<D: Device>() {
    let device = D::new();
    let (_server, client) = server_with_client(&device, false);
    assert_eq!(runs(&send(&client, 40, 1024)), "C32 F8 ");
}

pub(crate) fn spam_is_reported_again_after_the_area_was_freed<D: Device>() {
    let device = D::new();
    let (server, client) = server_with_client(&device, true);
    server.write(&[roundtrip_binder_driver::Command::EnterLooper]).unwrap();
    for _ in 0..2 {
        assert_eq!(runs(&send(&client, 32, 1024)), "C25 S1 C6 ");
        for _ in 0..32 {
            let received = server.next_call();
            server.write(&[roundtrip_binder_driver::Command::FreeBuffer(received.buffer)]).unwrap();
        }
    }
}
