//! `cargo xtask guest`: runs one program on a real kernel with its binder driver and disks, in
//! QEMU. Parses arguments; the guest crate boots.

use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Duration;

use anyhow::{Context as _, Result, bail};
use roundtrip_guest::{Arch, Clock, Disk, End, Job, Packaged, Source};

use crate::boot::{first_process, prepare};
use crate::shell::{asked, say};

pub(crate) const HELP: &str = "\
Usage: cargo xtask guest [OPTIONS] [--] PROGRAM [ARGUMENTS]

Boots a kernel in QEMU, runs a static PROGRAM on its binder driver or a disk, and exits with the program's status.
Needs neither root nor KVM. Under emulation, times mean nothing: use --count to compare.

Options:
  --kernel FILE   boots this bzImage, Image or vmlinux instead of Debian's kernel
  --module FILE   loads this module first; may be repeated
  --rt            boots Debian's kernel with PREEMPT_RT
  --ubuntu        boots Ubuntu's kernel, which is newer and has binderfs
  --arch ARCH     x86_64 or aarch64; by default that of PROGRAM
  --disk KIND     gives the guest a scratch disk with ext4, mounted at /disk: virtio, nvme, nvme-shared (for multipathing),
                  sd, scsi, dm (the device mapper on virtio), or ufs (QEMU 8.2 or later)
  --append TEXT   adds parameters to the kernel's command line, as in 'preempt=full'
  --count         makes the clock count instructions, 1 ns for each, on one processor
  --env NAME=VALUE  sets a variable of PROGRAM's environment; may be repeated
  --file FILE     puts a file next to PROGRAM; may be repeated
  --out DIR       stores what PROGRAM leaves in /out
  --limit SECONDS ends PROGRAM, and the guest, after this time (300)";

/// The parsed arguments.
struct Asked {
    source: Source,
    clock: Clock,
    arch: Option<Arch>,
    disk: Option<Disk>,
    parameters: String,
    job: Job,
}

/// Runs the command with these arguments. The exit status is the program's.
pub(crate) fn command(arguments: &[String]) -> ExitCode {
    let asked = match asked("guest", HELP, arguments, parse) {
        Ok(asked) => asked,
        Err(status) => return status,
    };
    match carry_out(&asked) {
        Ok(end @ End::Exit(_)) => ExitCode::from(end.status()),
        Ok(end) => {
            say(&format!("guest: the program {end}"));
            ExitCode::from(end.status())
        }
        Err(error) => {
            say(&format!("guest: {error:#}"));
            ExitCode::from(125)
        }
    }
}

fn carry_out(asked: &Asked) -> Result<End> {
    let program = &asked.job.program;
    let bytes = std::fs::read(program).with_context(|| format!("read {}", program.display()))?;
    let arch = Arch::of_program(&bytes).with_context(|| format!("boot for {}", program.display()))?;
    if asked.arch.is_some_and(|wanted| wanted != arch) {
        bail!("{} is for {}", program.display(), arch.name());
    }
    let mut kernel = prepare(arch, &asked.source)?;
    if let Some(disk) = asked.disk {
        kernel = kernel.with_disk(disk)?;
    }
    let kernel = kernel.with_parameters(&asked.parameters);
    let init = first_process(arch)?;
    roundtrip_guest::run(
        &kernel,
        &init,
        &asked.job,
        asked.clock,
        &mut std::io::stdout(),
        &mut std::io::stderr(),
    )
}

fn parse(arguments: &[String]) -> Result<Asked> {
    let mut left = arguments.iter();
    let (mut image, mut modules, mut packaged) = (None, Vec::new(), None);
    let (mut clock, mut arch, mut disk) = (Clock::Wall, None, None);
    let (mut environment, mut files, mut out, mut limit_s) = (Vec::new(), Vec::new(), None, 300);
    let mut parameters = String::new();
    let program = loop {
        let Some(word) = left.next() else { bail!("PROGRAM is missing") };
        let mut value = || left.next().with_context(|| format!("{word} needs a value"));
        match word.as_str() {
            "--kernel" => image = Some(PathBuf::from(value()?)),
            "--module" => modules.push(PathBuf::from(value()?)),
            "--rt" => packaged = Some((word, Packaged::DebianRealtime)),
            "--ubuntu" => packaged = Some((word, Packaged::Ubuntu)),
            "--arch" => arch = Some(value()?.parse()?),
            "--disk" => disk = Some(value()?.parse()?),
            "--append" => parameters = value()?.to_owned(),
            "--count" => clock = Clock::Instructions,
            "--env" => {
                let (name, text) = value()?.split_once('=').context("--env needs NAME=VALUE")?;
                environment.push((name.to_owned(), text.to_owned()));
            }
            "--file" => files.push(PathBuf::from(value()?)),
            "--out" => out = Some(PathBuf::from(value()?)),
            "--limit" => limit_s = value()?.parse().context("--limit needs a number of seconds")?,
            "--" => break left.next().context("PROGRAM is missing")?,
            other if other.starts_with('-') => bail!("unknown option {other}"),
            _ => break word,
        }
    };
    let source = match image {
        Some(image) => {
            if let Some((word, _)) = packaged {
                bail!("{word} and --kernel both choose a kernel; use one");
            }
            Source::File { image, modules }
        }
        None if modules.is_empty() => Source::Packaged(packaged.map_or(Packaged::Debian, |(_, which)| which)),
        None => bail!("--module needs --kernel"),
    };
    let limit = Duration::from_secs(limit_s);
    let job = Job {
        earlier: Vec::new(),
        program: Path::new(program).into(),
        arguments: left.cloned().collect(),
        environment,
        files,
        out,
        limit,
    };
    Ok(Asked { source, clock, arch, disk, parameters, job })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn words(line: &str) -> Vec<String> {
        line.split(' ').map(str::to_owned).collect()
    }

    #[test]
    fn arguments_after_the_program_belong_to_the_program() {
        let asked = parse(&words("--rt --limit 7 -- ./a --rt -x")).expect("a good command");
        assert_eq!(asked.job.arguments, ["--rt", "-x"]);
        assert_eq!(asked.job.limit, Duration::from_secs(7));
        assert!(matches!(asked.source, Source::Packaged(Packaged::DebianRealtime)));
    }

    #[test]
    fn invalid_arguments_are_refused() {
        for line in [
            "--limit",
            "--limit x ./a",
            "--env x ./a",
            "--append",
            "--nonsense ./a",
            "--rt --kernel k ./a",
            "--ubuntu --kernel k ./a",
            "--module m ./a",
            "--disk floppy ./a",
            "--",
        ] {
            assert!(parse(&words(line)).is_err(), "{line}");
        }
    }
}
