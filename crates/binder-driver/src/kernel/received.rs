//! Finds the descriptors that the kernel driver opened for a returned transaction. Their numbers
//! are in the data and in the buffers of arrays, which only the kernel can write.

use std::os::fd::RawFd;

use crate::RawBytes;
use crate::uapi::{
    BINDER_TYPE_FD, BINDER_TYPE_FDA, BINDER_TYPE_PTR, BR_REPLY, BR_TRANSACTION, BR_TRANSACTION_SEC_CTX,
    BufferObject, FdArrayObject, FdObject, Field as _, TransactionData, payload_size,
};

/// The numbers of received descriptors.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Numbers {
    pub(super) single: Vec<RawFd>,
    /// Descriptors that the driver closes with the buffer.
    pub(super) in_arrays: Vec<RawFd>,
}

/// Finds the transactions and replies with objects in `returns`.
#[inline]
pub(super) fn with_objects(mut returns: &[u8]) -> impl Iterator<Item = TransactionData> {
    std::iter::from_fn(move || {
        while let Some((word, rest)) = returns.split_first_chunk() {
            let word = u32::from_ne_bytes(*word);
            let (payload, rest) = rest.split_at_checked(payload_size(word))?;
            returns = rest;
            if matches!(word, BR_TRANSACTION | BR_TRANSACTION_SEC_CTX | BR_REPLY) {
                let data = TransactionData::from_bytes(payload);
                if data.is_some_and(|data| data.offsets_size != 0) {
                    return data;
                }
            }
        }
        None
    })
}

/// The descriptors that came with `transaction`, whose data is in `area`.
pub(super) fn numbers(area: RawBytes<'_>, transaction: &TransactionData) -> Numbers {
    let mut found = Numbers::default();
    let data = area.part_at(transaction.buffer, transaction.data_size);
    let Some((data, offsets)) = data.zip(area.part_at(transaction.offsets, transaction.offsets_size)) else {
        return found;
    };
    let object = |index: u64| {
        let offset = offsets.array(usize::try_from(index).ok()?.checked_mul(8)?)?;
        data.rest(usize::try_from(u64::from_ne_bytes(offset)).ok()?)
    };
    let kind = |object: RawBytes<'_>| object.array(0).map(u32::from_ne_bytes);
    for index in 0..offsets.len() as u64 / 8 {
        let Some(at) = object(index) else { continue };
        if kind(at) == Some(BINDER_TYPE_FD) {
            let fd = at.array::<{ FdObject::SIZE }>(0).and_then(|bytes| FdObject::from_bytes(&bytes));
            found.single.extend(fd.and_then(|fd| RawFd::try_from(fd.fd).ok()));
        } else if kind(at) == Some(BINDER_TYPE_FDA) {
            let array =
                at.array::<{ FdArrayObject::SIZE }>(0).and_then(|bytes| FdArrayObject::from_bytes(&bytes));
            let Some(array) = array else { continue };
            let Some(parent) = object(array.parent).filter(|at| kind(*at) == Some(BINDER_TYPE_PTR)) else {
                continue;
            };
            let parent = parent.array::<{ BufferObject::SIZE }>(0);
            let Some(parent) = parent.and_then(|bytes| BufferObject::from_bytes(&bytes)) else { continue };
            let first = parent.buffer.wrapping_add(array.parent_offset);
            let Some(bytes) = array.count.checked_mul(4).and_then(|length| area.part_at(first, length))
            else {
                continue;
            };
            let numbers = bytes.to_vec();
            let numbers = numbers.chunks_exact(4).map(u32::take);
            found.in_arrays.extend(numbers.filter_map(|number| RawFd::try_from(number).ok()));
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::uapi::{BR_NOOP, BR_TRANSACTION_COMPLETE};

    /// Builds a transaction: a single descriptor, a buffer, an array of two at offset 4 of that
    /// buffer, another single descriptor, and the offsets of these objects.
    fn received(area: &mut [u8]) -> TransactionData {
        let base = area.as_ptr().expose_provenance() as u64;
        let single = |fd| FdObject { kind: BINDER_TYPE_FD, fd, ..Default::default() }.to_bytes();
        let at_buffer = 512;
        let buffer = BufferObject {
            kind: BINDER_TYPE_PTR,
            buffer: base + at_buffer,
            length: 12,
            ..Default::default()
        };
        let array = FdArrayObject {
            kind: BINDER_TYPE_FDA,
            count: 2,
            parent: 1,
            parent_offset: 4,
            ..Default::default()
        };
        let mut data = vec![0; 64];
        let mut offsets = Vec::new();
        for object in [&single(5)[..], &buffer.to_bytes(), &array.to_bytes(), &single(9)] {
            offsets.extend((data.len() as u64 - 64).to_ne_bytes());
            data.extend(object);
        }
        let data_size = data.len() as u64 - 64;
        area[..data.len()].copy_from_slice(&data);
        area[256..256 + offsets.len()].copy_from_slice(&offsets);
        let numbers: Vec<u8> = [77_u32, 6, 7].iter().flat_map(|number| number.to_ne_bytes()).collect();
        area[at_buffer as usize..at_buffer as usize + 12].copy_from_slice(&numbers);
        TransactionData {
            buffer: base + 64,
            data_size,
            offsets: base + 256,
            offsets_size: offsets.len() as u64,
            ..Default::default()
        }
    }

    #[test]
    fn single_descriptors_and_those_of_arrays_are_found() {
        let mut area = vec![0; 1024];
        let transaction = received(&mut area);
        let found = numbers(RawBytes::from(&area), &transaction);
        assert_eq!(found, Numbers { single: vec![5, 9], in_arrays: vec![6, 7] });
        // Offsets outside the area yield nothing.
        let outside = TransactionData { offsets_size: 1 << 40, ..transaction };
        assert_eq!(numbers(RawBytes::from(&area), &outside), Numbers::default());
        let fewer = TransactionData { offsets_size: 8, ..transaction };
        assert_eq!(numbers(RawBytes::from(&area), &fewer).single, [5]);
    }

    #[test]
    fn transactions_with_objects_are_found_among_returns() {
        let plain = TransactionData::default();
        let with = |size: u64| TransactionData { offsets_size: size, ..plain };
        let mut bytes = BR_NOOP.to_ne_bytes().to_vec();
        let mut add = |word: u32, data: &TransactionData| {
            bytes.extend(word.to_ne_bytes());
            bytes.extend(data.to_bytes());
        };
        add(BR_TRANSACTION, &plain);
        add(BR_REPLY, &with(8));
        add(BR_TRANSACTION_SEC_CTX, &with(16));
        bytes.extend([0; 8]); // the address of the security context
        bytes.extend(BR_TRANSACTION_COMPLETE.to_ne_bytes());
        bytes.extend(BR_TRANSACTION.to_ne_bytes());
        bytes.extend(with(24).to_bytes());
        let sizes = |bytes| with_objects(bytes).map(|data| data.offsets_size).collect::<Vec<_>>();
        assert_eq!(sizes(&bytes), [8, 16, 24]);
        // A truncated transaction is ignored.
        assert_eq!(sizes(&bytes[..bytes.len() - 1]), [8, 16]);
    }
}
