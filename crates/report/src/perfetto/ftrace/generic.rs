//! Events that the recording's reader does not decode, and those for which Perfetto has no message.

use roundtrip_perfetto::schema::{Kind, WRITTEN, event as ftrace, generic, generic_field};
use roundtrip_perfetto::write::{Int, Message, Nested, Text, Uint};
use roundtrip_tracefs::{Event, Trace, Value};

/// An event without a decoded form: Perfetto's message for it or, without one, all fields in the
/// event's format.
pub(super) fn other(message: &mut Message, trace: &Trace, event: &Event, name: &str) {
    let name = name.split_once('/').map_or(name, |(_, name)| name);
    if let Ok(at) = WRITTEN.binary_search_by_key(&name, |event| event.name) {
        message.nested(Nested(WRITTEN[at].number), |one| {
            for &(name, kind) in WRITTEN[at].fields {
                match (kind, trace.field(event, name)) {
                    (Kind::Int(number), Some(Value::Signed(value))) => _ = one.int(Int(number), value),
                    (Kind::Int(number), Some(Value::Unsigned(value))) => {
                        _ = one.int(Int(number), value.cast_signed())
                    }
                    (Kind::Uint(number), Some(value)) => {
                        if let Some(value) = value.number() {
                            one.uint(Uint(number), value);
                        }
                    }
                    (Kind::Text(number), Some(Value::Text(value))) => _ = one.text(Text(number), &value),
                    _ => {}
                }
            }
        });
        return;
    }
    generic(message, name, |fields| {
        let Some((format, _)) = trace.record(event) else { return };
        for field in format.fields.iter().filter(|field| !field.name.starts_with("common_")) {
            match trace.field(event, &field.name) {
                Some(Value::Signed(value)) => _ = fields.int(&field.name, value),
                Some(Value::Unsigned(value)) if field.type_name == "dev_t" => {
                    fields.uint(&field.name, makedev(value));
                }
                Some(Value::Unsigned(value)) => _ = fields.uint(&field.name, value),
                Some(Value::Text(value)) => _ = fields.text(&field.name, &value),
                Some(Value::Bytes(bytes)) => {
                    let digits: String = bytes.iter().map(|byte| format!("{byte:02x}")).collect();
                    fields.text(&field.name, &digits);
                }
                None => {}
            }
        }
    });
}

/// Converts the kernel's device number to Perfetto's, which is that of the C library's
/// `makedev(3)`.
fn makedev(kernel: u64) -> u64 {
    let (major, minor) = (kernel >> 20, kernel & 0xf_ffff);
    (major & !0xfff) << 32 | (major & 0xfff) << 8 | (minor & !0xff) << 12 | minor & 0xff
}

/// The fields of an event that Perfetto has no message for.
pub(super) struct Fields<'a>(&'a mut Message);

impl Fields<'_> {
    fn field(&mut self, name: &str, value: impl FnOnce(&mut Message)) -> &mut Self {
        self.0.nested(generic::field, |one| {
            one.text(generic_field::name, name);
            value(one);
        });
        self
    }

    pub(super) fn uint(&mut self, name: &str, value: u64) -> &mut Self {
        match i64::try_from(value) {
            Ok(_) => self.field(name, |one| _ = one.uint(generic_field::uint_value, value)),
            // A kernel address. Perfetto would show the number as negative.
            Err(_) => self.text(name, &format!("{value:#x}")),
        }
    }

    pub(super) fn int(&mut self, name: &str, value: i64) -> &mut Self {
        self.field(name, |one| _ = one.int(generic_field::int_value, value))
    }

    pub(super) fn text(&mut self, name: &str, value: &str) -> &mut Self {
        self.field(name, |one| _ = one.text(generic_field::str_value, value))
    }
}

pub(super) fn generic(message: &mut Message, name: &str, fields: impl FnOnce(&mut Fields<'_>)) {
    message.nested(ftrace::generic, |one| {
        one.text(generic::event_name, name);
        fields(&mut Fields(one));
    });
}

#[cfg(test)]
mod tests {
    use super::makedev;

    /// A device number as the kernel encodes it (`MKDEV` in `include/linux/kdev_t.h`).
    fn kernel(major: u64, minor: u64) -> u64 {
        major << 20 | minor
    }

    #[test]
    fn device_numbers_are_the_c_librarys() {
        for (major, minor, expected) in [
            (8, 1, 0x801),
            (7, 0, 0x700),
            (254, 3, 0xfe03),
            (259, 0xfedcb, 0xfed1_03cb),
            (0xfff, 0xf_ffff, 0xffff_ffff),
        ] {
            assert_eq!(makedev(kernel(major, minor)), expected, "{major}:{minor:#x}");
        }
    }

    #[test]
    fn the_c_library_reads_each_bit_of_a_device_number_back() {
        let all = (0..32).map(|bit| 1_u64 << bit);
        for one in all.chain([0, u64::from(u32::MAX)]) {
            let dev = makedev(one);
            let read = (u64::from(libc::major(dev)), u64::from(libc::minor(dev)));
            assert_eq!(read, (one >> 20, one & 0xf_ffff), "{one:#x} became {dev:#x}");
        }
    }
}
