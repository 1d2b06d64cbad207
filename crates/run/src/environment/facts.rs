//! The settings of a machine that affect latency. Each has a fixed name, and a value or the reason
//! why the value is unknown. Must not know how a setting is read, nor which value is good.

use std::collections::BTreeMap;
use std::fmt;

use serde::{Deserialize, Serialize};

/// Settings by name.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Facts(BTreeMap<String, Fact>);

/// One setting. Exactly one of `value` and `unknown` is set.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Fact {
    /// The value.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub value: Option<Value>,
    /// The reason why the value is unknown: "not there", "Permission denied".
    #[serde(skip_serializing_if = "Option::is_none")]
    pub unknown: Option<String>,
    /// The file or files that contain it.
    pub from: String,
}

/// The value of a setting.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(untagged)]
pub enum Value {
    /// On or off.
    Flag(bool),
    /// A whole number; its unit is in the setting's name.
    Whole(i64),
    /// A number with a fraction.
    Number(f64),
    /// Text.
    Text(String),
    /// Several names.
    Names(Vec<String>),
}

impl fmt::Display for Value {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Flag(true) => f.write_str("on"),
            Self::Flag(false) => f.write_str("off"),
            Self::Whole(number) => number.fmt(f),
            Self::Number(number) => number.fmt(f),
            Self::Text(text) => f.write_str(text),
            Self::Names(names) if names.is_empty() => f.write_str("none"),
            Self::Names(names) => f.write_str(&names.join(", ")),
        }
    }
}

impl Facts {
    /// Stores a setting, or the reason why it is unknown.
    pub fn note(&mut self, name: &str, from: &str, found: Result<Value, String>) {
        let (value, unknown) = match found {
            Ok(value) => (Some(value), None),
            Err(reason) => (None, Some(reason)),
        };
        self.0.insert(name.to_owned(), Fact { value, unknown, from: from.to_owned() });
    }

    /// The setting with this name; `None` if its run did not look for it.
    #[must_use]
    pub fn get(&self, name: &str) -> Option<&Fact> {
        self.0.get(name)
    }

    /// All settings, by name.
    pub fn iter(&self) -> impl Iterator<Item = (&str, &Fact)> {
        self.0.iter().map(|(name, fact)| (name.as_str(), fact))
    }

    /// The settings whose name starts with `prefix`, with the prefix removed.
    pub fn below<'a>(&'a self, prefix: &'a str) -> impl Iterator<Item = (&'a str, &'a Fact)> {
        self.iter().filter_map(move |(name, fact)| Some((name.strip_prefix(prefix)?, fact)))
    }

    /// A setting's value.
    ///
    /// # Errors
    /// A message that says why the value is unknown and names its file.
    pub fn value(&self, name: &str) -> Result<&Value, String> {
        let fact = self.get(name).ok_or_else(|| format!("{name} was not checked"))?;
        fact.value.as_ref().ok_or_else(|| match &fact.unknown {
            Some(reason) if fact.from.is_empty() => reason.clone(),
            Some(reason) => format!("{}: {reason}", fact.from),
            None => format!("{name} has no value"),
        })
    }

    /// The value of a setting that is a whole number.
    ///
    /// # Errors
    /// See [`Facts::value`]; also for a setting of another type.
    pub fn whole(&self, name: &str) -> Result<i64, String> {
        match self.value(name)? {
            Value::Whole(number) => Ok(*number),
            other => Err(format!("{name} is not a whole number: {other}")),
        }
    }

    /// The value of a setting that is a number, whole or not.
    ///
    /// # Errors
    /// See [`Facts::whole`].
    pub fn number(&self, name: &str) -> Result<f64, String> {
        match self.value(name)? {
            Value::Whole(number) => Ok(*number as f64),
            Value::Number(number) => Ok(*number),
            other => Err(format!("{name} is not a number: {other}")),
        }
    }

    /// The value of a setting that is on or off.
    ///
    /// # Errors
    /// See [`Facts::whole`].
    pub fn flag(&self, name: &str) -> Result<bool, String> {
        match self.value(name)? {
            Value::Flag(on) => Ok(*on),
            other => Err(format!("{name} is neither on nor off: {other}")),
        }
    }

    /// Text.
    ///
    /// # Errors
    /// See [`Facts::whole`].
    pub fn text(&self, name: &str) -> Result<&str, String> {
        match self.value(name)? {
            Value::Text(text) => Ok(text),
            other => Err(format!("{name} is not a text: {other}")),
        }
    }

    /// Several names.
    ///
    /// # Errors
    /// See [`Facts::whole`].
    pub fn names(&self, name: &str) -> Result<&[String], String> {
        match self.value(name)? {
            Value::Names(names) => Ok(names),
            other => Err(format!("{name} is not a list: {other}")),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_kind_of_value_and_reason_is_read_back_as_stored() {
        let mut facts = Facts::default();
        facts.note("smt", "smt/active", Ok(Value::Flag(true)));
        facts.note("timer_slack_ns", "timerslack_ns", Ok(Value::Whole(50_000)));
        facts.note("share", "stat", Ok(Value::Number(0.25)));
        facts.note("android", "build.prop", Ok(Value::Text("16".into())));
        facts.note("debug", "config.gz", Ok(Value::Names(vec!["KASAN".into()])));
        facts.note("thermal", "", Err("no cooling device".into()));
        let text = roundtrip_stored::to_text(&facts).unwrap();
        let read: Facts = roundtrip_stored::read_text(text.as_bytes()).unwrap();
        assert_eq!(read, facts);
        assert!(text.contains(r#""timer_slack_ns":{"value":50000,"from":"timerslack_ns"}"#), "{text}");
        assert_eq!(facts.flag("smt"), Ok(true));
        assert_eq!(facts.number("timer_slack_ns"), Ok(50_000.0));
        assert_eq!(facts.value("thermal"), Err("no cooling device".into()));
    }

    #[test]
    fn a_setting_of_another_type_is_refused_with_its_value() {
        let mut facts = Facts::default();
        facts.note("slack", "f", Ok(Value::Text("many".into())));
        facts.note("paranoid", "p", Err("Permission denied".into()));
        assert_eq!(facts.whole("slack"), Err("slack is not a whole number: many".into()));
        assert_eq!(facts.whole("paranoid"), Err("p: Permission denied".into()));
        assert_eq!(facts.whole("gone"), Err("gone was not checked".into()));
    }
}
