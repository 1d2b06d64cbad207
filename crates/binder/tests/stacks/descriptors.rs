//! File descriptors in calls and replies: a reader owns the descriptors that it reads, and all
//! others are closed.

use std::fs::File;
use std::io::{Read as _, Write as _};
use std::os::fd::OwnedFd;
use std::os::unix::fs::MetadataExt as _;
use std::path::PathBuf;
use std::sync::Arc;

use crate::support::{World, function};
use roundtrip_binder::{
    Call, Error, HwParcel, HwReader, HwStub, NativeHandle, Parcel, Process, Service, Status,
};
use roundtrip_binder_driver::{Backend, Commands, Driver, RawBytes, ReadableMemory, Returns};

/// A pipe's read end and write end. The read end reports end of file when every duplicate of the
/// write end is closed.
fn pipe() -> (File, OwnedFd) {
    let (from, to) = std::io::pipe().unwrap();
    (OwnedFd::from(from).into(), to.into())
}

fn rest_of(mut from: File) -> String {
    let mut text = String::new();
    from.read_to_string(&mut text).unwrap();
    text
}

#[test]
fn a_service_gets_a_duplicate_descriptor_and_sends_one_back() {
    let mut world = World::new();
    let service = function(|_, data, reply| {
        File::from(data.read_fd()?).write_all(b"from the service").unwrap();
        let (from, to) = pipe();
        File::from(to).write_all(b"to the client").unwrap();
        reply.write_fd(from.into());
        Ok(())
    });
    world.manager(service, 1);
    let service = world.process().context_manager();
    let (from, to) = pipe();
    let reply = service
        .call(1, |parcel| {
            parcel.write_fd(to);
            Ok(())
        })
        .unwrap();
    let received = reply.reader().unwrap().read_fd().unwrap();
    drop(reply);
    assert_eq!(rest_of(received.into()), "to the client");
    assert_eq!(rest_of(from), "from the service");
}

#[test]
fn unread_descriptors_are_closed_on_both_sides() {
    let mut world = World::new();
    let (kept, replied) = pipe();
    let replied = std::sync::Mutex::new(Some(replied));
    let service = function(move |_, _, reply| {
        replied.lock().unwrap().take().into_iter().for_each(|to| reply.write_fd(to));
        Ok(())
    });
    world.manager(service, 1);
    let service = world.process().context_manager();
    let (from, to) = pipe();
    let mut parcel = Parcel::new();
    parcel.write_fd(to);
    drop(service.transact(1, &parcel).unwrap());
    drop(service.call(1, |_| Ok(())).unwrap()); // frees the reply's buffer and clears the server's parcel
    drop(parcel);
    assert_eq!((rest_of(from), rest_of(kept)), (String::new(), String::new()));
}

#[test]
fn bytes_without_a_process_yield_no_descriptor() {
    let mut parcel = Parcel::new();
    parcel.write_fd(pipe().1);
    assert!(matches!(parcel.reader().read_fd(), Err(Error::Malformed { at: 0, .. })));
    let mut other = Parcel::new();
    other.write_i64(7);
    assert!(matches!(other.reader().read_fd(), Err(Error::Malformed { at: 0, .. })));
}

/// A driver that delivers no descriptors, regardless of the numbers in the data.
#[derive(Debug)]
struct WithoutDescriptors(Arc<dyn Driver>);

impl Driver for WithoutDescriptors {
    fn backend(&self) -> Backend {
        self.0.backend()
    }
    fn exchange(
        &self,
        commands: &mut Commands,
        memory: &ReadableMemory<'_>,
        returns: Option<&mut Returns>,
    ) -> Result<(), roundtrip_binder_driver::Error> {
        self.0.exchange(commands, memory, returns)
    }
    fn area(&self) -> RawBytes<'_> {
        self.0.area()
    }
    fn become_context_manager(&self, flags: u32) -> Result<(), roundtrip_binder_driver::Error> {
        self.0.become_context_manager(flags)
    }
    fn set_max_threads(&self, threads: u32) -> Result<(), roundtrip_binder_driver::Error> {
        self.0.set_max_threads(threads)
    }
    fn exit_thread(&self) {
        self.0.exit_thread();
    }
    fn interrupt(&self) {
        self.0.interrupt();
    }
}

#[test]
fn a_number_that_the_driver_did_not_deliver_is_not_a_descriptor() {
    let mut world = World::new();
    let server = Process::new(Arc::new(WithoutDescriptors(world.driver())));
    let service = function(|_, data, _| match data.read_fd() {
        Err(Error::Descriptor { .. }) => Ok(()),
        other => panic!("{other:?}"),
    });
    server.become_context_manager(service).unwrap();
    server.start_looper().unwrap();
    let service = world.process().context_manager();
    let (from, to) = pipe();
    let mut parcel = Parcel::new();
    parcel.write_fd(to);
    drop(service.transact(1, &parcel).unwrap());
    drop(parcel);
    server.stop();
    // A descriptor that the driver did not deliver stays open.
    let file = |path: PathBuf| std::fs::metadata(path).ok().map(|status| status.ino());
    let own = from.metadata().unwrap().ino();
    let open = std::fs::read_dir("/proc/self/fd").unwrap();
    assert_eq!(open.filter(|entry| file(entry.as_ref().unwrap().path()) == Some(own)).count(), 2);
}

/// Writes the received integers to the first descriptor, and sends the second one back.
struct Handles;

impl HwStub for Handles {
    fn descriptor(&self) -> &str {
        "test@1.0::IHandles"
    }

    fn on_transact<'a>(
        &'a self,
        _: &Call,
        data: &mut HwReader<'a>,
        reply: &mut HwParcel<'a>,
    ) -> Result<(), Status> {
        data.check_interface("test@1.0::IHandles")?;
        let mut handle = data.read_native_handle()?.expect("no null was sent");
        assert!(data.read_native_handle()?.is_none());
        let second = handle.descriptors.pop().into_iter().collect();
        File::from(handle.descriptors.remove(0))
            .write_all(format!("{:?}", handle.integers).as_bytes())
            .unwrap();
        reply.write_no_exception();
        Ok(reply.write_native_handle(Some(NativeHandle { descriptors: second, integers: vec![-1] }))?)
    }
}

#[test]
fn a_native_handle_carries_descriptors_and_integers_both_ways() {
    let mut world = World::new();
    world.manager(Service::hwbinder(Handles), 1);
    let service = world.process().context_manager();
    let ((first, to_first), (second, to_second)) = (pipe(), pipe());
    let reply = service
        .call_hw(1, |parcel| {
            parcel.write_interface_token("test@1.0::IHandles")?;
            let descriptors = vec![to_first, to_second];
            parcel.write_native_handle(Some(NativeHandle { descriptors, integers: vec![1, 2, 3] }))?;
            parcel.write_native_handle(None)
        })
        .unwrap();
    let mut reader = reply.hw_reader().unwrap();
    reader.plain().read_exception().unwrap();
    let handle = reader.read_native_handle().unwrap().unwrap();
    assert_eq!(handle.integers, [-1]);
    drop(reply);
    service.process().flush().unwrap(); // the driver closes an array's descriptors with its buffer
    for to in handle.descriptors {
        File::from(to).write_all(b"back").unwrap();
    }
    assert_eq!((rest_of(first), rest_of(second)), ("[1, 2, 3]".to_owned(), "back".to_owned()));
}
