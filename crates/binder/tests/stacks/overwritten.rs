//! A peer overwrites received data while the receiver reads it. Every participant of an emulated
//! context can write to all receive areas. These tests write through the context's memfd.

use std::fs::File;
use std::os::unix::fs::FileExt as _;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

use crate::support::{World, function};
use roundtrip_binder::{Call, Error, HwParcel, HwReader, HwStub, Status};
use rustix::fs::{SeekFrom, seek};

const PAGE: usize = 4096;

/// The memory of all contexts in this process.
fn memories() -> Vec<File> {
    let descriptors = std::fs::read_dir("/proc/self/fd").expect("/proc");
    let paths = descriptors.map(|entry| entry.expect("an entry").path());
    let is_one = |path: &std::path::PathBuf| {
        std::fs::read_link(path).is_ok_and(|to| to.to_string_lossy().contains("memfd:roundtrip-binder"))
    };
    paths.filter(is_one).filter_map(|path| File::options().read(true).write(true).open(path).ok()).collect()
}

/// Finds all occurrences of `marker` in shared memory.
fn find(marker: &[u8]) -> Vec<(File, u64)> {
    let mut found = Vec::new();
    for memory in memories() {
        let mut at = 0;
        while let Ok(start) = seek(&memory, SeekFrom::Data(at)) {
            at = seek(&memory, SeekFrom::Hole(start)).expect("an end");
            let mut bytes = vec![0; (at - start) as usize];
            memory.read_exact_at(&mut bytes, start).expect("what is there");
            let places = bytes.windows(marker.len()).enumerate().filter(|(_, part)| *part == marker);
            for (place, _) in places {
                found.push((memory.try_clone().expect("a descriptor"), start + place as u64));
            }
        }
    }
    found
}

/// Overwrites `length` bytes, starting `before` bytes before each occurrence of `marker`.
fn overwrite(marker: &[u8], before: u64, length: usize) {
    let places = find(marker);
    assert!(!places.is_empty(), "the request is not in shared memory, so this tests nothing");
    for (memory, at) in places {
        memory.write_all_at(&vec![0xff; length], at - before).expect("shared memory");
    }
}

#[test]
fn data_that_a_binder_object_read_does_not_change_when_a_peer_overwrites_the_buffer() {
    const MARKER: &[u8] = b"a payload that is looked for in shared memory 1";
    let mut world = World::new();
    let service = function(|_, data, reply| {
        let text16 = data.read_string16()?;
        let text8 = data.read_string8()?;
        let number = data.read_i64()?;
        let numbers = data.read_i32_vec()?;
        let bytes = data.read_bytes()?;
        let copy = bytes.to_vec();
        let before = data.position() as u64 - (MARKER.len() as u64).next_multiple_of(4);
        overwrite(MARKER, before, data.data().len());
        // The borrowed bytes change with the buffer; the copies do not.
        reply.write_bool(bytes == [0xff; MARKER.len()]);
        reply.write_bool(copy == MARKER);
        reply.write_string16(&text16)?;
        reply.write_string8(&text8)?;
        reply.write_i64(number);
        reply.write_i32_vec(&numbers)?;
        // The reader refuses overwritten items that it has not read yet.
        let rest: [Result<(), Error>; 4] = [
            data.clone().read_string16().map(drop),
            data.clone().read_string8().map(drop),
            data.clone().read_bytes().map(drop),
            data.clone().read_binder().map(drop),
        ];
        reply.write_bool(rest.iter().all(|read| matches!(read, Err(Error::Malformed { .. }))));
        Ok(())
    });
    world.manager(service, 1);
    let manager = world.process().context_manager();
    let reply = manager
        .call(1, |parcel| {
            parcel.write_string16("grüße")?;
            parcel.write_string8("世界")?;
            parcel.write_i64(i64::MIN);
            parcel.write_i32_vec(&[1, -2])?;
            parcel.write_bytes(MARKER)?;
            parcel.write_string16("a string")
        })
        .unwrap();
    let mut reader = reply.reader().unwrap();
    assert!(reader.read_bool().unwrap(), "the borrowed bytes were not overwritten");
    assert!(reader.read_bool().unwrap(), "the copy has changed");
    assert_eq!(reader.read_string16().unwrap(), "grüße");
    assert_eq!(reader.read_string8().unwrap(), "世界");
    assert_eq!(reader.read_i64().unwrap(), i64::MIN);
    assert_eq!(reader.read_i32_vec().unwrap(), [1, -2]);
    assert!(reader.read_bool().unwrap(), "an overwritten item was read");
}

/// Reads a string, strings and a vector, then overwrites the buffers.
struct Reads(&'static [u8]);

impl HwStub for Reads {
    fn descriptor(&self) -> &str {
        "test@1.0::IReads"
    }

    fn on_transact<'a>(
        &'a self,
        _: &Call,
        data: &mut HwReader<'a>,
        reply: &mut HwParcel<'a>,
    ) -> Result<(), Status> {
        data.check_interface(self.descriptor())?;
        reply.write_no_exception();
        let text = data.read_string()?;
        let texts = data.read_string_vec()?;
        let bytes = data.read_vec()?;
        let copy = bytes.to_vec();
        overwrite(self.0, 0, self.0.len());
        overwrite(b"one of the strings", 64, 128);
        let plain = reply.plain();
        plain.write_bool(bytes == vec![0xff; self.0.len()]);
        plain.write_bool(copy == self.0);
        plain.write_bool(matches!(data.read_string(), Err(Error::Malformed { .. })));
        reply.write_string(&text)?;
        Ok(reply.write_string_vec(&texts)?)
    }
}

#[test]
fn what_a_hwbinder_object_read_stays_when_a_peer_overwrites_the_buffer() {
    const MARKER: &[u8] = b"a payload that is looked for in shared memory 2";
    let mut world = World::new();
    world.manager(roundtrip_binder::Service::hwbinder(Reads(MARKER)), 1);
    let proxy = world.process().context_manager();
    let reply = proxy
        .call_hw(1, |parcel| {
            parcel.write_interface_token("test@1.0::IReads")?;
            parcel.write_string("grüße")?;
            parcel.write_string_vec(&["one of the strings", "another"])?;
            parcel.write_vec(MARKER)?;
            parcel.write_string("one of the strings")
        })
        .unwrap();
    let mut reader = reply.hw_reader().unwrap();
    reader.plain().read_exception().unwrap();
    assert!(reader.plain().read_bool().unwrap(), "the borrowed bytes were not overwritten");
    assert!(reader.plain().read_bool().unwrap(), "the copy has changed");
    assert!(reader.plain().read_bool().unwrap(), "an overwritten item was read");
    assert_eq!(reader.read_string().unwrap(), "grüße");
    assert_eq!(reader.read_string_vec().unwrap(), ["one of the strings", "another"]);
}

const STREAM_MARKER: &[u8] = b"a payload that is looked for in shared memory 3";

/// Code 1 finds the request in shared memory; any other code reads it and counts complete reads.
fn stable_reader(
    places: Arc<Mutex<Vec<(File, u64)>>>,
    complete: Arc<AtomicU64>,
) -> roundtrip_binder::Service {
    function(move |call, data, reply| {
        if call.code == 1 {
            *places.lock().unwrap() = find(STREAM_MARKER);
            return Ok(());
        }
        let text = data.read_string8()?;
        let text16 = data.read_string16()?;
        let bytes = data.read_bytes()?;
        let copy = bytes.to_vec();
        let before = (text.clone(), text16.clone(), copy.clone());
        for _ in 0..20 {
            std::hint::black_box(bytes.to_vec());
        }
        assert_eq!((&text, &text16, &copy), (&before.0, &before.1, &before.2));
        assert!(str::from_utf8(text.as_bytes()).is_ok() && str::from_utf8(text16.as_bytes()).is_ok());
        complete.fetch_add(1, Ordering::Relaxed);
        reply.write_bytes(bytes)?; // from the buffer, which may have changed
        Ok(())
    })
}

/// Overwrites a few bytes of the pages of `places` until `done`, so that some calls arrive intact.
fn overwrite_until(done: &AtomicBool, places: &[(File, u64)]) {
    let mut value = 0_u8;
    while !done.load(Ordering::Relaxed) {
        value = value.wrapping_mul(13).wrapping_add(11);
        for (memory, at) in places {
            let start = at / PAGE as u64 * PAGE as u64;
            let at = start + u64::from(value) * 2;
            memory.write_all_at(&[value; 3], at).expect("shared memory");
        }
    }
}

/// A read during concurrent writes either fails or returns a value that does not change.
#[test]
fn data_that_was_read_does_not_change_while_a_peer_writes_all_the_time() {
    const CALLS: u64 = 3000;
    let mut world = World::new();
    let (places, complete) = (Arc::new(Mutex::new(Vec::new())), Arc::new(AtomicU64::new(0)));
    world.manager(stable_reader(Arc::clone(&places), Arc::clone(&complete)), 1);
    let manager = world.process().context_manager();
    let send = |code| {
        manager.call(code, |parcel| {
            parcel.write_string8("a string of some length, ü")?;
            parcel.write_string16("another string, ß")?;
            parcel.write_bytes(STREAM_MARKER)
        })
    };
    drop(send(1).unwrap());
    let places = std::mem::take(&mut *places.lock().unwrap());
    assert!(!places.is_empty(), "the request is not in shared memory, so this tests nothing");
    let done = AtomicBool::new(false);
    let refused = std::thread::scope(|scope| {
        scope.spawn(|| overwrite_until(&done, &places));
        let refused = (0..CALLS).filter(|_| send(2).is_err()).count() as u64;
        done.store(true, Ordering::Relaxed);
        refused
    });
    let complete = complete.load(Ordering::Relaxed);
    assert!(complete + refused >= CALLS, "{complete} calls read, {refused} refused of {CALLS}");
    assert!(complete > 0, "no call was read completely");
}
