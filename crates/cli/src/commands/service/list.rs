//! `roundtrip service list`: the registered services of each running context.

use anyhow::bail;
use roundtrip_binder::manager::ServiceManager;
use serde_json::json;

use super::context::{Found, NONE};
use super::{Place, group};
use crate::args::values::set;
use crate::args::{Entry, Group, Kind, Opt, values};
use crate::terminal::{Exit, Terminal};
use roundtrip_report::text::inert;
use roundtrip_report::text::table::{Column, Table};

/// The arguments as typed.
#[derive(Default)]
pub(crate) struct Typed {
    place: Place,
    format: Option<String>,
}

impl AsMut<Place> for Typed {
    fn as_mut(&mut self) -> &mut Place {
        &mut self.place
    }
}

/// The command.
pub(crate) static COMMAND: Entry<Typed> = Entry {
    path: &["service", "list"],
    kind: Kind::Command,
    summary: "lists the services of running contexts",
    description: "Asks the service manager of each running context for its services, and each \
                  service for its interface. It looks at the emulated contexts that this user may \
                  join, and at the kernel's binder devices in their usual places.",
    positionals: None,
    groups: &[
        group(),
        Group {
            heading: "Output",
            options: &[Opt::one_of(
                &["--format"],
                "FORMAT",
                &["table", "json", "csv", "markdown"],
                "The output format.",
                |typed: &mut Typed, text| set(&mut typed.format, values::any(text)),
            )
            .default("table")],
        },
    ],
    examples: &[("roundtrip service list", "Shows what a running measurement has registered.")],
    run,
};

fn run(typed: Typed, terminal: &mut Terminal<'_>) -> anyhow::Result<Exit> {
    let contexts = match &typed.place.context {
        Some(name) => vec![Found::named(name, &typed.place)?],
        None => Found::all(&typed.place),
    };
    if contexts.is_empty() {
        bail!("{NONE}");
    }
    let format = typed.format.as_deref();
    let mut all = Vec::new();
    let mut rows = Table::new(["context", "driver", "stack", "service", "interface"].map(Column::text));
    for context in &contexts {
        let services = match services(context) {
            Ok(services) => services,
            // Skip a context that has ended meanwhile.
            Err(_) if typed.place.context.is_none() => continue,
            Err(error) => return Err(error),
        };
        if format == Some("json") {
            all.push(as_json(context, &services));
            continue;
        }
        if matches!(format, Some("csv" | "markdown")) {
            for (name, interface) in services {
                let interface = interface.unwrap_or_else(|why| format!("({why})"));
                let stack = context.stack.to_string();
                rows.row([&context.name, &context.backend, &stack, &name, &interface]);
            }
            continue;
        }
        print(context, services, terminal)?;
    }
    match format {
        Some("json") => {
            serde_json::to_writer_pretty(&mut *terminal.out, &all)?;
            writeln!(terminal.out)?;
        }
        Some("csv") => terminal.out.write_all(rows.csv().as_bytes())?,
        Some("markdown") => terminal.out.write_all(rows.markdown().as_bytes())?,
        _ => {}
    }
    Ok(Exit::OK)
}

/// A context as JSON.
fn as_json(context: &Found, services: &[Listed]) -> serde_json::Value {
    let services = services.iter().map(|(name, interface)| match interface {
        Ok(interface) => json!({ "name": name, "interface": interface }),
        Err(why) => json!({ "name": name, "error": why }),
    });
    json!({
        "context": context.name,
        "driver": context.backend,
        "stack": context.stack.to_string(),
        "services": services.collect::<Vec<_>>(),
    })
}

/// A context as text: one line, followed by its services.
fn print(context: &Found, services: Vec<Listed>, terminal: &mut Terminal<'_>) -> std::io::Result<()> {
    let plural = if services.len() == 1 { "" } else { "s" };
    let (name, backend, stack) = (&context.name, &context.backend, context.stack);
    let name = inert::line(name);
    writeln!(terminal.out, "{name}: {backend}, {} {stack} service{plural}", services.len())?;
    if services.is_empty() {
        return Ok(());
    }
    let mut table = Table::new([Column::text("  service"), Column::text("interface")]);
    for (name, interface) in services {
        let interface = interface.unwrap_or_else(|why| format!("({why})"));
        table.row([format!("  {name}"), interface]);
    }
    write!(terminal.out, "{}", table.render(terminal.look))
}

/// A service's name, and its interface or the reason why that is unknown.
type Listed = (String, Result<String, String>);

/// The services of a context.
fn services(context: &Found) -> anyhow::Result<Vec<Listed>> {
    let names = ServiceManager::new(&context.process, context.stack).list()?;
    let interface = |name: &str| {
        let descriptor = |proxy: roundtrip_binder::Proxy| Ok(proxy.interface_descriptor(context.stack)?);
        context.service(name).and_then(descriptor).map_err(|error: anyhow::Error| format!("{error:#}"))
    };
    Ok(names
        .into_iter()
        .map(|name| (interface(&name), name))
        .map(|(interface, name)| (name, interface))
        .collect())
}
