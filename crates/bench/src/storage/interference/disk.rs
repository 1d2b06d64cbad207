//! What the devices below a file have done since boot, from sysfs.

use roundtrip_run::storage::StoragePath;

use crate::kernel::root::Root;

/// How many writes and flushes the devices have completed since boot, and their total duration in
/// nanoseconds (Documentation/block/stat.rst).
pub(super) fn disk(root: &Root, path: &StoragePath) -> Option<(u64, u64)> {
    let leaves = path.leaves();
    let each = leaves.iter().map(|device| {
        let (major, minor) = (device.dev >> 20, device.dev & 0xf_ffff);
        let text = root.read(format!("sys/dev/block/{major}:{minor}/stat"))?;
        let fields: Vec<u64> = text.split_whitespace().map(|field| field.parse().unwrap_or(0)).collect();
        // Linux counts flushes since 5.5.
        let flush = |at: usize| fields.get(at).copied().unwrap_or(0);
        Some((fields.get(4)? + flush(15), (fields.get(7)? + flush(16)) * 1_000_000))
    });
    each.reduce(|sum, one| Some((sum?.0 + one?.0, sum?.1 + one?.1))).flatten()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kernel::root::fixture;
    use roundtrip_run::storage::Device;

    #[test]
    fn writes_and_flushes_of_all_devices_are_summed() {
        let root = fixture(&[
            ("sys/dev/block/7:1/stat", "9 0 9 9 100 0 800 50 0 9 9 0 0 0 0 20 30\n"),
            ("sys/dev/block/7:2/stat", "9 0 9 9 1 0 8 2 0 9 9\n"),
        ]);
        let device = |minor: u32| Device { dev: 7 << 20 | minor, ..Device::default() };
        let top = Device { below: vec![device(1), device(2)], ..Device::default() };
        let path = StoragePath { device: Some(top), ..StoragePath::default() };
        assert_eq!(disk(&root, &path), Some((121, 82_000_000)));
        assert_eq!(disk(&root, &StoragePath::default()), None);
    }
}
