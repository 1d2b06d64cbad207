//! Makes a fixture for this crate's tests: a few pages of each CPU, and the kernel's text for the
//! same events.
//!
//! ```text capture FOLDER [KILOBYTES [EVENTS [COMMAND ARGUMENTS…]]] ```
//!
//! EVENTS is `all`, or a comma-separated list of `SYSTEM/EVENT`. Needs root.

#[path = "../tests/common/capture.rs"]
#[allow(dead_code)]
mod capture;

use std::collections::BTreeSet;
use std::error::Error;
use std::fs;
use std::path::PathBuf;
use std::time::Duration;

use capture::{EVENTS, Instance};

fn main() -> Result<(), Box<dyn Error>> {
    let mut arguments = std::env::args().skip(1);
    let folder = PathBuf::from(arguments.next().ok_or("give a folder to write to")?);
    let kilobytes = arguments.next().map_or(Ok(8), |kilobytes| kilobytes.parse())?;
    let events = arguments.next().unwrap_or_else(|| "all".to_owned());
    let events: Vec<&str> = if events == "all" { EVENTS.to_vec() } else { events.split(',').collect() };
    let command: Vec<String> = arguments.collect();

    let tracefs = roundtrip_tracefs::Tracefs::open()?;
    let instance = Instance::new(tracefs.root(), kilobytes, &events)?;
    instance.set("tracing_on", "1")?;
    capture::work(&instance, &command, Duration::from_millis(300))?;
    instance.set("tracing_on", "0")?;

    let text = instance.read("trace")?;
    let formats = instance.formats()?;
    let page = roundtrip_tracefs::Formats::parse(&formats[0].1, &formats[1].1, [], "")?.page().size;
    for (file, text) in &formats {
        let path = folder.join(file);
        fs::create_dir_all(path.parent().expect("below the folder"))?;
        fs::write(path, text)?;
    }
    fs::write(folder.join("trace"), &text)?;
    for cpu in instance.cpus()? {
        let mut bytes = Vec::new();
        capture::drain(&mut instance.pipe(cpu)?, page, usize::MAX, &mut bytes)?;
        fs::write(folder.join(format!("cpu{cpu}.pages")), bytes)?;
    }
    // Only the functions that occur in the text: the whole table has megabytes.
    let words: BTreeSet<&str> = text.split(|c: char| !c.is_ascii_alphanumeric() && c != '_').collect();
    let symbols = fs::read_to_string("/proc/kallsyms")?;
    let wanted = symbols
        .lines()
        .filter(|line| line.split_whitespace().nth(2).is_some_and(|name| words.contains(name)));
    fs::write(folder.join("kallsyms"), wanted.fold(String::new(), |all, line| all + line + "\n"))?;
    Ok(())
}
