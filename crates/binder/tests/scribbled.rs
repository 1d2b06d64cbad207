//! A peer that writes to a receive area while its owner reads what it received, and holds what it
//! read. The area of the emulated driver is memory that every participant can write to; this one
//! does it through the context's file.

mod support;

use std::fs::File;
use std::os::unix::fs::FileExt as _;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

use binder::{Call, Error, HwParcel, HwReader, HwStub, Status};
use rustix::fs::{SeekFrom, seek};
use support::{World, function};

const PAGE: usize = 4096;

/// The memory of all contexts that this process keeps.
fn memories() -> Vec<File> {
    let descriptors = std::fs::read_dir("/proc/self/fd").expect("/proc");
    let paths = descriptors.map(|entry| entry.expect("an entry").path());
    let is_one = |path: &std::path::PathBuf| {
        std::fs::read_link(path).is_ok_and(|to| to.to_string_lossy().contains("memfd:roundtrip-binder"))
    };
    paths.filter(is_one).filter_map(|path| File::options().read(true).write(true).open(path).ok()).collect()
}

/// Where in shared memory `marker` lies, wherever it does.
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

/// Writes over `length` bytes from `before` bytes before each place that `marker` lies at.
fn scribble(marker: &[u8], before: u64, length: usize) {
    let places = find(marker);
    assert!(!places.is_empty(), "the request lies in shared memory, else this shows nothing");
    for (memory, at) in places {
        memory.write_all_at(&vec![0xff; length], at - before).expect("shared memory");
    }
}

#[test]
fn what_a_binder_object_has_read_stays_whatever_a_peer_writes_there() {
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
        scribble(MARKER, before, data.data().len());
        // What is lent is read where it lies; what was read is what was sent.
        reply.write_bool(bytes == [0xff; MARKER.len()]);
        reply.write_bool(copy == MARKER);
        reply.write_string16(&text16)?;
        reply.write_string8(&text8)?;
        reply.write_i64(number);
        reply.write_i32_vec(&numbers)?;
        // What was not read yet is no longer what was sent, and is refused.
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
    assert!(reader.read_bool().unwrap(), "nobody has written to what was lent");
    assert!(reader.read_bool().unwrap(), "the copy has changed");
    assert_eq!(reader.read_string16().unwrap(), "grüße");
    assert_eq!(reader.read_string8().unwrap(), "世界");
    assert_eq!(reader.read_i64().unwrap(), i64::MIN);
    assert_eq!(reader.read_i32_vec().unwrap(), [1, -2]);
    assert!(reader.read_bool().unwrap(), "garbage was read as if it were sent");
}

/// Reads a string and strings, then has everything written over.
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
        scribble(self.0, 0, self.0.len());
        scribble(b"one of the strings", 64, 128);
        let plain = reply.plain();
        plain.write_bool(bytes == vec![0xff; self.0.len()]);
        plain.write_bool(copy == self.0);
        plain.write_bool(matches!(data.read_string(), Err(Error::Malformed { .. })));
        reply.write_string(&text)?;
        Ok(reply.write_string_vec(&texts)?)
    }
}

#[test]
fn what_a_hwbinder_object_has_read_stays_whatever_a_peer_writes_there() {
    const MARKER: &[u8] = b"a payload that is looked for in shared memory 2";
    let mut world = World::new();
    world.manager(binder::Service::hwbinder(Reads(MARKER)), 1);
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
    assert!(reader.plain().read_bool().unwrap(), "nobody has written to what was lent");
    assert!(reader.plain().read_bool().unwrap(), "the copy has changed");
    assert!(reader.plain().read_bool().unwrap(), "garbage was read as if it were sent");
    assert_eq!(reader.read_string().unwrap(), "grüße");
    assert_eq!(reader.read_string_vec().unwrap(), ["one of the strings", "another"]);
}

/// Whatever is read while somebody writes there all the time is an error, or a value that stays.
#[test]
fn a_peer_that_never_stops_writing_changes_nothing_that_was_read() {
    const MARKER: &[u8] = b"a payload that is looked for in shared memory 3";
    const CALLS: u64 = 3000;
    let mut world = World::new();
    let (places, read) = (Arc::new(Mutex::new(Vec::new())), Arc::new(AtomicU64::new(0)));
    let service = function({
        let (places, read) = (Arc::clone(&places), Arc::clone(&read));
        move |call, data, reply| {
            if call.code == 1 {
                *places.lock().unwrap() = find(MARKER);
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
            read.fetch_add(1, Ordering::Relaxed);
            reply.write_bytes(bytes)?; // as it lies
            Ok(())
        }
    });
    world.manager(service, 1);
    let manager = world.process().context_manager();
    let send = |code| {
        manager.call(code, |parcel| {
            parcel.write_string8("a string of some length, ü")?;
            parcel.write_string16("another string, ß")?;
            parcel.write_bytes(MARKER)
        })
    };
    drop(send(1).unwrap());
    let places = std::mem::take(&mut *places.lock().unwrap());
    assert!(!places.is_empty(), "the request lies in shared memory, else this shows nothing");
    let done = AtomicBool::new(false);
    let wrong = std::thread::scope(|scope| {
        scope.spawn(|| {
            let mut value = 0_u8;
            while !done.load(Ordering::Relaxed) {
                value = value.wrapping_mul(13).wrapping_add(11);
                for (memory, at) in &places {
                    let start = at / PAGE as u64 * PAGE as u64;
                    // Some bytes somewhere in the page, so that some calls arrive as they were
                    // sent.
                    let at = start + u64::from(value) * 2;
                    memory.write_all_at(&[value; 3], at).expect("shared memory");
                }
            }
        });
        let wrong = (0..CALLS).filter(|_| send(2).is_err()).count() as u64;
        done.store(true, Ordering::Relaxed);
        wrong
    });
    let read = read.load(Ordering::Relaxed);
    assert!(read + wrong >= CALLS, "{read} calls read, {wrong} refused: each of them is answered");
    assert!(read > 0, "no call was ever read whole");
}
