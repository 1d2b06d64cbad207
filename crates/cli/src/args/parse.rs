//! Parses a command line by a table. Stores what was typed, and does not interpret it.

use std::ffi::{OsStr, OsString};

use lexopt::{Arg, Parser};

use super::table::{Doc, OptDoc, PositionalsDoc, Sink};
use super::{Kind, Usage, ValueKind, nearest};

/// The result of parsing.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Parsed {
    /// Run the command with the stored arguments.
    Run,
    /// Show the command's help.
    Help,
}

/// Parses `args` (without the command's own words) by the command's table, into `typed`.
/// `environment` looks up a variable.
pub(super) fn parse(
    doc: &Doc,
    typed: &mut dyn Sink,
    args: Vec<OsString>,
    environment: &dyn Fn(&str) -> Option<String>,
) -> Result<Parsed, Usage> {
    from_environment(doc, typed, environment)?;
    let mut parser = Parser::from_args(args);
    let mut positionals = 0;
    loop {
        let raw = parser.try_raw_args().and_then(|raw| raw.peek().map(OsStr::to_owned));
        let name = if let Some(old) = old_style_name(doc, &mut parser) {
            old
        } else {
            match parser.next().map_err(|error| Usage(unexpected_value(error)))? {
                None => break,
                Some(Arg::Short(letter)) => format!("-{letter}"),
                Some(Arg::Long(name)) => format!("--{name}"),
                Some(Arg::Value(value)) => {
                    positional(doc.positionals.as_ref(), typed, positionals, &text("argument", value)?)?;
                    positionals += 1;
                    continue;
                }
            }
        };
        match find(doc, &name) {
            Some((index, option)) => {
                apply(option, &name, &mut parser, &mut |value| typed.option(index, value))
                    .map_err(|refusal| misspelt(doc, &name, raw.as_deref()).unwrap_or(refusal))?
            }
            None if name == "--help" || name == "-h" => return Ok(Parsed::Help),
            None => return Err(unknown(doc, &name, raw.as_deref())),
        }
    }
    match &doc.positionals {
        Some(rule) if positionals < *rule.count.start() => Err(Usage(format!("{} is missing", rule.usage))),
        _ => Ok(Parsed::Run),
    }
}

/// Finds an option by name, with its index among all options.
fn find<'d>(doc: &'d Doc, name: &str) -> Option<(usize, &'d OptDoc)> {
    let has = |option: &OptDoc| option.names.contains(&name);
    doc.options().enumerate().find(|(_, option)| has(option))
}

/// Takes the next argument if it is a long name with one dash, which lexopt would parse as several
/// short options.
fn old_style_name(doc: &Doc, parser: &mut Parser) -> Option<String> {
    let is_one = |arg: &OsStr| {
        arg.to_str().is_some_and(|name| {
            name.len() > 2 && name.as_bytes()[1] != b'-' && name.starts_with('-') && find(doc, name).is_some()
        })
    };
    parser.try_raw_args()?.next_if(is_one)?.into_string().ok()
}

fn apply(
    option: &OptDoc,
    name: &str,
    parser: &mut Parser,
    store: &mut dyn FnMut(Option<&str>) -> Result<(), String>,
) -> Result<(), Usage> {
    match option.value {
        None => store(None).map_err(|reason| Usage(format!("{name}: {reason}"))),
        Some((value_name, true)) => {
            let value = parser
                .value()
                .map_err(|_| Usage(format!("{name} needs a value: {name} {value_name}")))
                .and_then(|value| text(name, value))?;
            check(option.kind, name, &value)?;
            store(Some(&value)).map_err(|reason| Usage(format!("{name} {value}: {reason}")))
        }
        Some((_, false)) if option.kind == ValueKind::Number => {
            let number = |arg: &OsStr| arg.to_str().is_some_and(|arg| arg.parse::<u64>().is_ok());
            let value = parser.optional_value().or_else(|| parser.try_raw_args()?.next_if(number));
            match value.map(|value| text(name, value)).transpose()? {
                Some(value) if !number(value.as_ref()) => {
                    Err(Usage(format!("{name} {value}: expected a whole number, or none")))
                }
                value => store(value.as_deref()).map_err(|reason| Usage(format!("{name}: {reason}"))),
            }
        }
        Some((_, false)) => {
            let value = parser.optional_value().map(|value| text(name, value)).transpose()?;
            store(value.as_deref())
                .map_err(|reason| Usage(format!("{name}={}: {reason}", value.unwrap_or_default())))
        }
    }
}

fn from_environment(
    doc: &Doc,
    typed: &mut dyn Sink,
    environment: &dyn Fn(&str) -> Option<String>,
) -> Result<(), Usage> {
    for (index, option) in doc.options().enumerate().filter(|(_, option)| option.environment) {
        let variable = option.names[0].trim_start_matches('-').to_uppercase();
        let Some(value) = environment(&variable) else { continue };
        if let Some((_, true)) = option.value {
            check(option.kind, &variable, &value)?;
        }
        typed
            .option(index, Some(&value))
            .map_err(|reason| Usage(format!("environment variable {variable}={value}: {reason}")))?;
    }
    Ok(())
}

fn positional(
    rule: Option<&PositionalsDoc>,
    typed: &mut dyn Sink,
    before: usize,
    value: &str,
) -> Result<(), Usage> {
    match rule {
        Some(rule) if before < *rule.count.end() => {
            check(rule.kind, rule.usage, value)?;
            typed.positional(value).map_err(|reason| Usage(format!("{value}: {reason}")))
        }
        _ => Err(Usage(format!("unexpected argument '{value}'"))),
    }
}

fn check(kind: ValueKind, name: &str, value: &str) -> Result<(), Usage> {
    match kind {
        ValueKind::OneOf(words) if !words.contains(&value) => {
            Err(Usage(format!("{name} {value}: expected {}", words.join(", "))))
        }
        _ => Ok(()),
    }
}

fn text(name: &str, value: OsString) -> Result<String, Usage> {
    value
        .into_string()
        .map_err(|value| Usage(format!("{name} '{}' is not valid UTF-8", value.to_string_lossy())))
}

/// `-pairs 4`, if `-p` and `-pair` exist, is parsed as `-p airs`. If that fails, the whole word was
/// meant as a name.
fn misspelt(doc: &Doc, name: &str, raw: Option<&OsStr>) -> Option<Usage> {
    let raw = raw?.to_str()?;
    let near = nearest(raw, doc.options().flat_map(|option| option.names).copied());
    (name.len() == 2 && raw != name && near.is_some()).then(|| unknown(doc, name, Some(OsStr::new(raw))))
}

fn unknown(doc: &Doc, name: &str, raw: Option<&OsStr>) -> Usage {
    // If one of several short options is unknown, the whole word was meant as a name.
    let raw = raw.unwrap_or_default().to_string_lossy();
    let typed = if name.starts_with("--") || raw.len() < 3 { name } else { &raw };
    let of = if doc.kind == Kind::OldName { String::new() } else { format!(" for '{}'", doc.words()) };
    let hint = nearest(typed, doc.options().flat_map(|option| option.names).copied())
        .map(|near| format!(" (did you mean {near}?)"))
        .unwrap_or_default();
    Usage(format!("unknown flag {typed}{of}{hint}"))
}

fn unexpected_value(error: lexopt::Error) -> String {
    match error {
        lexopt::Error::UnexpectedValue { option, value } => {
            format!("{option} takes no value, but was given '{}'", value.to_string_lossy())
        }
        other => other.to_string(),
    }
}

#[cfg(test)]
#[path = "parse_tests.rs"]
mod tests;
