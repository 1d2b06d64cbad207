//! A bundle: consecutive events of one CPU, and whether events are missing before them.

use roundtrip_perfetto::read::{Fields, Message, Value};
use roundtrip_perfetto::schema;
use roundtrip_tracefs::{Event, EventContext, Name, Names, TaskState};

use super::compact::{self, MAX_ROWS, TOO_LONG};
use super::described::{Described, described};
use super::{MAX_EVENT_NAMES, Reader};
use crate::bodies;
use crate::collect::MOST_CPUS;
use crate::fields::Fields as Named;
use crate::{BYTES_EACH, Foreign};

/// A bundle's fields besides its events.
#[derive(Default)]
struct Head {
    cpu: u32,
    lost: bool,
    clock: u64,
    clock_ns: i64,
    boot_ns: i64,
    /// The time of the last event that Perfetto had read of this CPU before this bundle (up to
    /// version 46; it may not have written all), or that it had written (from version 47 on). 0 if
    /// there was none.
    read_ns: Option<u64>,
    written_ns: Option<u64>,
}

impl Head {
    fn read(bytes: &[u8]) -> Result<Self, String> {
        let mut head = Self::default();
        for field in Message::new(bytes) {
            match field? {
                (1, Value::Number(cpu)) => head.cpu = u32::try_from(cpu).unwrap_or(u32::MAX),
                (3, Value::Number(lost)) => head.lost = lost != 0,
                (5, Value::Number(clock)) => head.clock = clock,
                (6, Value::Number(ns)) => head.clock_ns = ns.cast_signed(),
                (7, Value::Number(ns)) => head.boot_ns = ns.cast_signed(),
                (9, Value::Number(ns)) => head.read_ns = Some(ns),
                (10, Value::Number(ns)) => head.written_ns = Some(ns),
                _ => {}
            }
        }
        if head.cpu >= MOST_CPUS {
            return Err(format!("it names CPU {}", head.cpu));
        }
        Ok(head)
    }
}

impl Reader<'_> {
    /// Reads the trace's own descriptions of events.
    pub(super) fn descriptions(&mut self, bytes: &[u8]) -> Result<(), String> {
        for field in Message::new(bytes) {
            self.step()?;
            if let (11, Value::Bytes(one)) = field?
                && self.described.len() < MAX_EVENT_NAMES
                && let Some((number, described)) = described(one)?
            {
                let kept = self.budget.memory(one.len() + BYTES_EACH);
                kept.map_err(|exceeded| exceeded.to_string())?;
                self.described.insert(number, described);
            }
        }
        Ok(())
    }

    pub(super) fn bundle(
        &mut self,
        bytes: &[u8],
        sequence: u64,
        foreign: &mut Foreign,
    ) -> Result<(), String> {
        self.step()?;
        let head = Head::read(bytes)?;
        self.bundles += 1;
        let shift = self.shift(&head);
        match head.written_ns.or(head.read_ns) {
            None => {}
            // It is the CPU's first bundle, or only bundles without events came before.
            Some(0) if self.collected.last_ns(head.cpu).is_none() => self.collected.is_whole(head.cpu),
            Some(0) => {}
            Some(ns) => self.collected.complete_from(head.cpu, ns.wrapping_add_signed(shift)),
        }
        // Perfetto had written events that are missing here. It lost them in its own buffer.
        let written_ns = head.written_ns.filter(|&ns| ns > 0).map(|ns| ns.wrapping_add_signed(shift));
        let gap =
            self.collected.last_ns(head.cpu).zip(written_ns).is_some_and(|(last, written)| last < written);
        if head.lost || gap {
            self.collected.lost(head.cpu, None);
            self.running.remove(&head.cpu);
        }
        let mut events = Vec::new();
        let (mut damage, mut undecoded_ns) = (None, 0);
        for field in Message::new(bytes) {
            match field {
                Ok((2, Value::Bytes(event))) => match self.event(event, head.cpu, sequence, foreign) {
                    Ok(Ok(_)) if events.len() >= MAX_ROWS => damage = Some(TOO_LONG.to_owned()),
                    Ok(Ok(event)) => events.push(compact::Found::Whole(event)),
                    Ok(Err(time_ns)) => undecoded_ns = undecoded_ns.max(time_ns),
                    Err(what) => damage = Some(what),
                },
                Ok((4, Value::Bytes(sched))) => {
                    if let Err(what) =
                        compact::read(sched, self.old_states, &mut foreign.trace.names, &mut events)
                    {
                        damage = Some(what);
                    }
                }
                Ok(_) => {}
                Err(what) => damage = Some(what),
            }
        }
        events.sort_by_key(compact::Found::time_ns);
        for found in events {
            self.found(found, head.cpu, shift);
        }
        if undecoded_ns > 0 {
            self.collected.seen(head.cpu, undecoded_ns.wrapping_add_signed(shift));
        }
        damage.map_or(Ok(()), |what| {
            // The rest of the bundle is missing.
            self.collected.lost(head.cpu, None);
            Err(what)
        })
    }

    fn found(&mut self, found: compact::Found, cpu: u32, shift: i64) {
        if let compact::Found::Switch { .. } = found {
            self.collected.has("sched/sched_switch");
        } else if let compact::Found::Waking { .. } = found {
            self.collected.has("sched/sched_waking");
        }
        let Some(mut event) = found.event(cpu, &mut self.running) else {
            self.without_thread += 1;
            return;
        };
        event.time_ns = event.time_ns.wrapping_add_signed(shift);
        self.collected.add(event);
    }

    /// The offset from a bundle's clock to boot time.
    fn shift(&mut self, head: &Head) -> i64 {
        let name = match head.clock {
            0 => return 0,
            2 => "global",
            3 => "local",
            4 => "mono_raw",
            _ => "unknown",
        };
        self.clock = Some(name);
        if head.boot_ns != 0 && head.clock_ns != 0 {
            return head.boot_ns.wrapping_sub(head.clock_ns);
        }
        if head.clock == 4 { self.raw_to_boot.unwrap_or(0) } else { 0 }
    }

    /// Reads an event; only its time, in nanoseconds, if it has no decoded form.
    fn event(
        &mut self,
        bytes: &[u8],
        cpu: u32,
        sequence: u64,
        foreign: &mut Foreign,
    ) -> Result<Result<Event, u64>, String> {
        self.step()?;
        let fields = Fields::read(bytes)?;
        let (Some(time_ns), Some(tid)) = (fields.number(1), fields.u32(2)) else { return Ok(Err(0)) };
        let context = fields.u32(5).map_or(EventContext::Unknown, EventContext::of_flags);
        for field in Message::new(bytes).skip(2) {
            let (number, Value::Bytes(inner)) = field? else { continue };
            let inner_fields = Fields::read(inner)?;
            let symbols = |id: u64| self.symbols.get(&(sequence, id)).map(String::as_str);
            let said = EventMessage {
                fields: &inner_fields,
                inner,
                context,
                old_states: self.old_states,
                symbols: &symbols,
                known: schema::read_event(number),
                generic: number == schema::event::generic.0,
                described: self.described.get(&number),
            };
            let Some(name) = said.name() else { continue };
            let system = bodies::system(name);
            let full = format!("{system}/{name}");
            let body = bodies::body(name, &said, &mut foreign.trace);
            self.collected.has(&full);
            if let Some(body) = body {
                return Ok(Ok(Event { time_ns, cpu, tid, body }));
            }
        }
        Ok(Err(time_ns))
    }
}

/// The message of an event, with fields named as in the kernel.
struct EventMessage<'a> {
    known: Option<&'static schema::Event>,
    /// Whether it is an event without its own message, from before Perfetto 50.
    generic: bool,
    fields: &'a Fields<'a>,
    inner: &'a [u8],
    described: Option<&'a Described>,
    context: EventContext,
    old_states: bool,
    symbols: &'a dyn Fn(u64) -> Option<&'a str>,
}

impl<'a> EventMessage<'a> {
    fn name(&self) -> Option<&'a str> {
        if self.generic {
            return self.fields.text(1);
        }
        self.known.map(|event| event.name).or(self.described.map(|event| event.name.as_str()))
    }

    fn value(&self, name: &str) -> Option<Value<'a>> {
        if self.generic {
            return generic(self.inner, name);
        }
        if let Some(event) = self.known {
            // A missing proto2 field was not recorded, because Perfetto also writes zeros.
            return self.fields.value(event.field(name)?);
        }
        let (number, _) = self.described?.fields.iter().find(|(_, field)| field == name)?;
        self.fields.value(*number)
    }
}

/// A field of `GenericFtraceEvent`.
fn generic<'a>(bytes: &'a [u8], name: &str) -> Option<Value<'a>> {
    Message::new(bytes).filter_map(Result::ok).find_map(|(number, value)| {
        let (2, Value::Bytes(field)) = (number, value) else { return None };
        let field = Fields::read(field).ok()?;
        let named = field.text(1) == Some(name);
        named.then(|| [3, 4, 5].into_iter().find_map(|number| field.value(number)))?
    })
}

impl Named for EventMessage<'_> {
    fn int(&self, name: &str) -> Option<i64> {
        match self.value(name)? {
            Value::Number(value) => Some(value.cast_signed()),
            // Roundtrip writes large addresses as text, because Perfetto shows them as negative.
            Value::Bytes(text) => {
                let digits = std::str::from_utf8(text).ok()?.strip_prefix("0x")?;
                u64::from_str_radix(digits, 16).ok().map(u64::cast_signed)
            }
        }
    }

    fn text(&self, name: &str) -> Option<&str> {
        match self.value(name)? {
            Value::Bytes(bytes) => std::str::from_utf8(bytes).ok(),
            Value::Number(_) => None,
        }
    }

    /// Perfetto encodes device numbers as `makedev(3)` does.
    fn device(&self, name: &str) -> Option<u32> {
        let number = self.int(name)?.cast_unsigned();
        let major = number >> 8 & 0xfff | number >> 32 & 0xffff_f000;
        let minor = number & 0xff | number >> 12 & 0xffff_ff00;
        u32::try_from(major << 20 | minor).ok()
    }

    fn context(&self) -> EventContext {
        self.context
    }

    fn argument(&self, place: usize) -> Option<u64> {
        let arguments = Message::new(self.inner).filter_map(Result::ok).filter_map(|field| match field {
            (2, Value::Number(value)) => Some(value),
            _ => None,
        });
        arguments.take(6).nth(place)
    }

    fn state(&self) -> Option<TaskState> {
        self.int("prev_state").map(|state| compact::state(state, self.old_states))
    }

    fn function(&self, name: &str, names: &mut Names) -> Name {
        match self.value(name) {
            Some(Value::Number(0)) | None => Name(0),
            Some(Value::Number(id)) => match (self.symbols)(id) {
                Some(symbol) => names.intern(symbol),
                None => names.intern(&format!("{id:#x}")),
            },
            Some(Value::Bytes(bytes)) => names.intern(&String::from_utf8_lossy(bytes)),
        }
    }
}
