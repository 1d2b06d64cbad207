//! The reader accepts and rejects the same values as `serde_json::from_value`, and its errors name
//! the place.

use std::collections::BTreeMap;
use std::fmt::Debug;

use proptest::prelude::*;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
struct Whole {
    flag: bool,
    small: u8,
    signed: i32,
    large: u64,
    ratio: f64,
    text: String,
    letter: Option<char>,
    #[serde(default)]
    added: Option<u32>,
    kind: Kind,
    tagged: Option<Tagged>,
    pairs: Vec<(u64, i64)>,
    named: BTreeMap<String, Option<u16>>,
    numbered: BTreeMap<u32, Inner>,
    kinds: BTreeMap<Plain, bool>,
    wrapped: Wrapped,
}

#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Inner {
    values: Vec<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    next: Option<Box<Self>>,
}

#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
struct Wrapped(String);

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
enum Plain {
    FirstOne,
    Second,
}

#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
enum Kind {
    #[default]
    Nothing,
    Number(u32),
    Pair(u8, String),
    Fields {
        at: u64,
        #[serde(default)]
        why: Option<String>,
    },
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "what", rename_all = "snake_case")]
enum Tagged {
    Alone,
    Full { inner: Inner, count: u64 },
}

fn read<T: DeserializeOwned>(value: &Value) -> Result<T, roundtrip_stored::Error> {
    roundtrip_stored::read_text(value.to_string().as_bytes())
}

/// Reads a value with both readers, and compares their results.
fn both<T: DeserializeOwned + PartialEq + Debug>(value: &Value) -> Option<T> {
    let ours = read::<T>(value);
    let theirs = serde_json::from_value::<T>(value.clone());
    assert_eq!(ours.is_ok(), theirs.is_ok(), "{value}\nours: {ours:?}\ntheirs: {theirs:?}");
    if let (Err(ours), Err(theirs)) = (&ours, &theirs) {
        let (ours, theirs) = (ours.to_string(), theirs.to_string());
        // Our message has the place before serde_json's text, and may name a variant after it. For
        // a key that is not a whole number, serde_json may name the position in the key. For a
        // tuple variant, serde_json reports an empty array as null.
        let empty = theirs.contains("invalid type: null") && ours.contains("invalid length 0");
        let same = theirs.contains(" at line ") || ours.contains(&theirs) || empty;
        assert!(same, "{value}: {ours} and {theirs}");
    }
    let ours = ours.ok();
    assert_eq!(ours, theirs.ok(), "{value}");
    ours
}

fn example() -> Whole {
    let inner = Inner { values: vec![0.1, 1e300, -3.0], next: None };
    Whole {
        flag: true,
        small: 255,
        signed: -7,
        large: u64::MAX,
        ratio: 0.1 + 0.2,
        text: "a \"text\" with\n\u{1F980}".to_owned(),
        letter: Some('ä'),
        added: Some(1),
        kind: Kind::Fields { at: 5, why: Some("so".to_owned()) },
        tagged: Some(Tagged::Full { inner: inner.clone(), count: 3 }),
        pairs: vec![(1, -1), (u64::MAX, i64::MIN)],
        named: [("a.b".to_owned(), Some(1)), (String::new(), None)].into(),
        numbered: [(0, Inner::default()), (u32::MAX, Inner { values: vec![], next: Some(Box::new(inner)) })]
            .into(),
        kinds: [(Plain::FirstOne, true), (Plain::Second, false)].into(),
        wrapped: Wrapped("inside".to_owned()),
    }
}

#[test]
fn a_stored_value_is_read_back_unchanged() {
    for whole in [example(), Whole::default()] {
        let text = roundtrip_stored::to_text(&whole).expect("it is JSON");
        assert_eq!(text, serde_json::to_string(&whole).expect("it is JSON"));
        assert_eq!(roundtrip_stored::read_text::<Whole>(text.as_bytes()).expect("ours"), whole);
        assert_eq!(both::<Whole>(&serde_json::to_value(&whole).expect("it is JSON")), Some(whole));
    }
    for kind in
        [Kind::Nothing, Kind::Number(3), Kind::Pair(1, "x".to_owned()), Kind::Fields { at: 0, why: None }]
    {
        assert_eq!(both::<Kind>(&serde_json::to_value(&kind).expect("it is JSON")), Some(kind));
    }
    assert_eq!(both::<Tagged>(&json!({"what": "alone", "more": 1})), Some(Tagged::Alone));
}

#[test]
fn a_field_may_be_any_json_value() {
    let value = serde_json::to_value(example()).expect("it is JSON");
    assert_eq!(both::<Value>(&value), Some(value));
}

#[test]
fn errors_name_the_place() {
    let mut value = serde_json::to_value(example()).expect("it is JSON");
    let problem = |value: &Value| read::<Whole>(value).expect_err("damaged").to_string();
    let good = value.clone();

    value["numbered"]["4294967295"]["next"]["values"][1] = json!("1");
    assert_eq!(
        problem(&value),
        "numbered.4294967295.next.values[1]: invalid type: string \"1\", expected f64"
    );
    value = good.clone();
    value["kind"] = json!({"fields": {"at": -1}});
    assert_eq!(problem(&value), "kind.fields.at: invalid value: integer `-1`, expected u64");
    value = good.clone();
    value.as_object_mut().expect("a struct").remove("wrapped");
    assert_eq!(problem(&value), "missing field `wrapped`");
    value = good.clone();
    value["pairs"] = json!([[1, 2], [3]]);
    assert_eq!(problem(&value), "pairs[1]: invalid length 1, expected a tuple of size 2");

    let cut = roundtrip_stored::read_text::<Whole>(b"{\"flag\": tr").expect_err("no JSON");
    assert!(cut.is_cut_off() && cut.to_string().contains("line 1 column 11"), "{cut}");
    assert!(!roundtrip_stored::read_text::<Whole>(b"{]").expect_err("no JSON").is_cut_off());
}

#[test]
fn a_struct_is_not_read_from_an_array() {
    let error = read::<Inner>(&json!([[], null])).expect_err("an array");
    assert_eq!(error.to_string(), "invalid type: sequence, expected struct Inner");
    assert!(read::<Kind>(&json!({"fields": [1, null]})).is_err());
}

#[test]
fn number_keys_use_json_notation() {
    for key in ["0", "4294967295", "4294967296", "-1", "01", "+1", " 1", "1.0", "", "one"] {
        both::<BTreeMap<u32, bool>>(&json!({ key: true }));
        both::<BTreeMap<i64, bool>>(&json!({ key: true }));
    }
    for key in ["first_one", "second", "third", "1", ""] {
        both::<BTreeMap<Plain, bool>>(&json!({ key: true }));
    }
}

/// Arbitrary JSON values, small enough to be likely to match.
fn anything() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<u64>().prop_map(Value::from),
        any::<i64>().prop_map(Value::from),
        (0_i64..300).prop_map(Value::from),
        any::<f64>().prop_map(Value::from),
        "[a-z_]{0,2}".prop_map(Value::from),
        prop_oneof![Just("nothing"), Just("alone"), Just("first_one"), Just("fields")].prop_map(Value::from),
    ];
    leaf.prop_recursive(2, 8, 3, |inner| {
        let key = prop_oneof![Just("what"), Just("values"), Just("number"), Just("pair"), Just("7")];
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..3).prop_map(Value::from),
            prop::collection::btree_map(key.prop_map(str::to_owned), inner, 0..3)
                .prop_map(|object| Value::Object(object.into_iter().collect())),
        ]
    })
}

proptest! {
    /// Replaces one field of the example by an arbitrary value, or removes it.
    #[test]
    fn both_readers_agree_on_damaged_values(field in 0_usize..15, with in prop::option::of(anything())) {
        let mut value = serde_json::to_value(example()).expect("it is JSON");
        let object = value.as_object_mut().expect("a struct");
        let key = object.keys().nth(field).expect("one of its fields").clone();
        // The only difference: no structs from arrays.
        let struct_from_array = match (key.as_str(), &with) {
            ("numbered", Some(Value::Object(entries))) => entries.values().any(Value::is_array),
            ("tagged", Some(_)) => true,
            _ => false,
        };
        prop_assume!(!struct_from_array);
        match with {
            Some(with) => { object.insert(key, with); }
            None => { object.remove(&key); }
        }
        both::<Whole>(&value);
    }

    #[test]
    fn both_readers_agree_on_single_values(value in anything()) {
        both::<bool>(&value);
        both::<i8>(&value);
        both::<u64>(&value);
        both::<u128>(&value);
        both::<f32>(&value);
        both::<f64>(&value);
        both::<char>(&value);
        both::<String>(&value);
        both::<()>(&value);
        both::<Option<i64>>(&value);
        both::<(u64, bool)>(&value);
        both::<[f64; 2]>(&value);
        both::<Vec<Option<u64>>>(&value);
        both::<BTreeMap<String, Value>>(&value);
        both::<Wrapped>(&value);
        both::<Plain>(&value);
    }
}
