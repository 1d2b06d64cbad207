//! `roundtrip service call`: calls a method and shows the bytes of the reply.

use std::fs::File;

use anyhow::{Context as _, Result};
use roundtrip_binder::{HwParcel, Parcel, Stack};

use super::context::Found;
use super::{Typed, group, parcel};
use crate::args::{Entry, Kind, Positionals, Usage, ValueKind, usage};
use crate::terminal::{Exit, Terminal};

/// The command.
pub(crate) static COMMAND: Entry<Typed> = Entry {
    path: &["service", "call"],
    kind: Kind::Command,
    summary: "calls a method of a service",
    description: "Calls the method with a number, as Android's service call does, and prints the reply's \
                  bytes. Roundtrip writes the interface token. Give the arguments as pairs of type and value:\n\n\
                  i32 N, i64 N, f N (32 bits), d N (64 bits), s16 TEXT (binder's string), s TEXT (UTF-8: a \
                  C++ String8 of binder, a hidl_string of hwbinder), fd FILE (opened for reading), null (no \
                  object).\n\n\
                  To pass a negative number, put -- before the service.",
    positionals: Some(Positionals {
        usage: "SERVICE CODE [TYPE VALUE]...",
        help: "A registered service, the method's number, and its arguments.",
        count: 2..=usize::MAX,
        kind: ValueKind::Text,
        set: Typed::push,
    }),
    groups: &[group()],
    examples: &[
        (
            "roundtrip service call activity 1598968902",
            "Asks a phone's activity manager for its interface's name.",
        ),
        (
            "roundtrip service call -- my.service 3 i32 -1 s16 hello",
            "Calls method 3 with a number and a string.",
        ),
    ],
    run,
};

fn run(typed: Typed, terminal: &mut Terminal<'_>) -> Result<Exit> {
    let (name, code) = (&typed.words[0], &typed.words[1]);
    let code = code.parse().map_err(|_| usage!("code {code}: expected a whole number, 0 to 4294967295"))?;
    let context = Found::one(&typed.place)?;
    let arguments = arguments(&typed.words[2..], context.stack)?;
    let service = context.service(name)?;
    let interface = service.interface_descriptor(context.stack)?;
    let reply = match context.stack {
        Stack::Binder => service.call(code, |parcel| {
            parcel.write_interface_token(&interface)?;
            arguments.into_iter().try_for_each(|argument| argument.write(parcel))
        })?,
        Stack::Hwbinder => service.call_hw(code, |parcel| {
            parcel.write_interface_token(&interface)?;
            arguments.into_iter().try_for_each(|argument| argument.write_hw(parcel))
        })?,
    };
    write!(terminal.out, "Result: {}", parcel::dump(&reply.reader()?.data().to_vec()))?;
    Ok(Exit::OK)
}

/// An argument to send.
enum Argument {
    I32(i32),
    I64(i64),
    F32(f32),
    F64(f64),
    String16(String),
    String8(String),
    File(File),
    Null,
}

/// Parses the words after the code.
fn arguments(words: &[String], stack: Stack) -> Result<Vec<Argument>> {
    let mut words = words.iter().map(String::as_str);
    let mut arguments = Vec::new();
    while let Some(kind) = words.next() {
        let argument = match kind {
            "null" => Argument::Null,
            _ => {
                let Some(value) = words.next() else { return Err(usage!("{kind} needs a value after it")) };
                match kind {
                    "i32" => Argument::I32(number(kind, value)?),
                    "i64" => Argument::I64(number(kind, value)?),
                    "f" => Argument::F32(number(kind, value)?),
                    "d" => Argument::F64(number(kind, value)?),
                    "s" => Argument::String8(value.to_owned()),
                    "s16" if stack == Stack::Binder => Argument::String16(value.to_owned()),
                    "fd" => {
                        Argument::File(File::open(value).with_context(|| format!("cannot open {value}"))?)
                    }
                    "s16" => return Err(usage!("s16: hwbinder's strings are UTF-8: use s")),
                    _ => {
                        return Err(usage!(
                            "argument type {kind}: expected i32, i64, f, d, s16, s, fd, null"
                        ));
                    }
                }
            }
        };
        arguments.push(argument);
    }
    Ok(arguments)
}

fn number<T: std::str::FromStr>(kind: &str, value: &str) -> Result<T, Usage> {
    value.parse().map_err(|_| Usage(format!("{kind} {value}: not a number of that type")))
}

impl Argument {
    fn write(self, parcel: &mut Parcel) -> Result<(), roundtrip_binder::Error> {
        match self {
            Self::I32(value) => parcel.write_i32(value),
            Self::I64(value) => parcel.write_i64(value),
            Self::F32(value) => parcel.write_f32(value),
            Self::F64(value) => parcel.write_f64(value),
            Self::String16(text) => parcel.write_string16(&text)?,
            Self::String8(text) => parcel.write_string8(&text)?,
            Self::File(file) => parcel.write_fd(file.into()),
            Self::Null => parcel.write_nullable_binder(None),
        }
        Ok(())
    }

    fn write_hw(self, parcel: &mut HwParcel<'_>) -> Result<(), roundtrip_binder::Error> {
        match self {
            Self::String16(text) | Self::String8(text) => parcel.write_string(&text),
            Self::File(file) => {
                let descriptors = vec![file.into()];
                parcel.write_native_handle(Some(roundtrip_binder::NativeHandle {
                    descriptors,
                    integers: Vec::new(),
                }))
            }
            plain => plain.write(parcel.plain()),
        }
    }
}
