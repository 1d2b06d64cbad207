//! One region seen by two participants, and what garbage in it reads as.

use super::*;

/// The offset of an address from the start of the region.
fn at<T>(region: &Region, what: &T) -> usize {
    std::ptr::from_ref(what) as usize - region.base.as_ptr() as usize
}

#[test]
fn the_words_of_different_threads_do_not_overlap() {
    let region = Region::create().expect("memory");
    for (index, of) in [(0, 0), (1, 1), (2, 2), (THREADS - 1, THREADS - 1), (THREADS, 0), (usize::MAX, 0)] {
        let begin = FUTEXES_AT + of * FUTEX_STRIDE;
        let found = [
            at(&region, region.sleep_word(index).0),
            at(&region, region.notification_id(index)),
            at(&region, region.waker(index)),
            at(&region, region.reply_lock(index)),
            at(&region, region.lock_owner(index)),
            at(&region, region.boosted(index)),
        ];
        assert_eq!(found.map(|at| at.wrapping_sub(begin)), [0, 8, 16, 20, 24, 28], "of thread {index}");
    }
    let lock = region.mutex();
    let found = [at(&region, lock.owner), at(&region, lock.sleepers), at(&region, lock.takeovers)];
    assert_eq!(found, [0, 4, 8 * TAKEOVERS]);
    assert_eq!([at(&region, region.words()), at(&region, region.received())], [0, 8 * RECEIVED_AT]);
}

#[test]
fn no_copy_goes_beyond_a_processs_area() {
    let region = Region::create().expect("memory");
    let base = region.base.as_ptr() as u64;
    let most = AREA_BYTES as u64;
    for (slot, of) in [(0, 0), (1, 1), (PROCESSES - 1, PROCESSES - 1), (PROCESSES, 0), (usize::MAX, 0)] {
        assert_eq!(region.area_address(slot), base + (AREAS_AT + of * AREA_BYTES) as u64);
        let area = region.area(slot, 9);
        assert_eq!((area.address(), area.len()), (region.area_address(slot), 9));
    }
    assert_eq!(region.area(1, u64::MAX).len(), AREA_BYTES);
    let bytes = [7; 16];
    for (offset, fits) in [(0, true), (most - 16, true), (most - 15, false), (u64::MAX - 7, false)] {
        assert_eq!(region.write_area(1, offset, (&bytes).into()), fits);
        let mut read = [1; 16];
        assert_eq!(region.read_area(1, offset, &mut read), fits);
        assert_eq!(read, [if fits { 7 } else { 1 }; 16]);
    }
    region.clear_area(1, most - 12, 4);
    region.clear_area(1, most - 2, 3);
    let mut read = [1; 16];
    assert!(region.read_area(1, most - 16, &mut read));
    assert_eq!(read, [7, 7, 7, 7, 0, 0, 0, 0, 7, 7, 7, 7, 7, 7, 7, 7]);
    let mut next = [1; 16];
    assert!(region.read_area(2, 0, &mut next) && next == [0; 16]);
}

#[test]
fn the_first_reason_for_the_end_is_kept() {
    let ends = [End::Closed, End::Gone, End::Stuck];
    for first in ends {
        let region = Region::create().expect("memory");
        assert_eq!(region.ended(), None);
        for end in [first].into_iter().chain(ends) {
            region.end(end);
            assert_eq!(region.ended(), Some(first));
        }
    }
    let reasons = ends.map(End::reason);
    for (reason, says) in reasons.into_iter().zip(["this process has left", "supervisor has exited", "lock"])
    {
        assert!(reason.contains(says), "{reason}");
    }
}

#[test]
fn memory_that_could_shrink_or_has_another_size_is_refused() {
    let maps = |seals: SealFlags, bytes: u64| {
        let flags = MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING;
        let file = rustix::fs::memfd_create("test", flags).expect("memory");
        rustix::fs::ftruncate(&file, bytes).expect("a size");
        rustix::fs::fcntl_add_seals(&file, seals).expect("seals");
        Region::map(file, Registry::create().expect("memory")).map(drop)
    };
    let (both, whole) = (SealFlags::SHRINK | SealFlags::GROW, REGION_BYTES as u64);
    assert_eq!(maps(both, whole), Ok(()));
    for (seals, bytes) in
        [(SealFlags::GROW, whole), (SealFlags::SHRINK, whole), (both, whole - 4096), (both, whole + 4096)]
    {
        assert_eq!(maps(seals, bytes), Err(Errno::PROTO), "{seals:?}, {bytes} bytes");
    }
    let seals = |file: BorrowedFd<'_>| rustix::fs::fcntl_get_seals(file).expect("a memfd");
    let region = Region::create().expect("memory");
    assert_eq!(seals(region.file()), both | SealFlags::SEAL);
}
