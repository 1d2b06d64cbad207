//! Events that a trace itself describes.

use roundtrip_perfetto::read::{Fields, Message, Value};

/// An event that the trace itself describes: its name, and its fields' names by number.
#[derive(Debug)]
pub(super) struct Described {
    pub(super) name: String,
    pub(super) fields: Vec<(u32, String)>,
}

/// `GenericEventDescriptor`: the number of the event's field, and a `DescriptorProto`.
pub(super) fn described(bytes: &[u8]) -> Result<Option<(u32, Described)>, String> {
    let fields = Fields::read(bytes)?;
    let (Some(number), Some(Value::Bytes(descriptor))) = (fields.u32(1), fields.value(2)) else {
        return Ok(None);
    };
    let mut found = Described { name: String::new(), fields: Vec::new() };
    for field in Message::new(descriptor) {
        match field? {
            (1, Value::Bytes(name)) => found.name = String::from_utf8_lossy(name).into_owned(),
            (2, Value::Bytes(field)) if found.fields.len() < 64 => {
                let field = Fields::read(field)?;
                if let (Some(name), Some(number)) = (field.text(1), field.u32(3)) {
                    found.fields.push((number, name.to_owned()));
                }
            }
            _ => {}
        }
    }
    Ok(Some((number, found)))
}
