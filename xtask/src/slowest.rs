//! The slowest steps, test programs and tests of a run, to make growth visible. Measures nothing.

use std::collections::BTreeMap;

use crate::builds::{Builds, Built};
use crate::timed::{Timed, without_hash};

/// How many rows each table has.
const ROWS: usize = 12;

/// What the tests of one program took, in seconds.
#[derive(Debug, Default, Clone, Copy, PartialEq)]
struct Program {
    built: Built,
    tests: usize,
    wall_s: f64,
    cpu_s: f64,
}

/// The tables of test programs and tests, as lines. Empty if no test ran.
pub(crate) fn of_tests(builds: &Builds, tests: &[Timed]) -> Vec<String> {
    if tests.is_empty() {
        return Vec::new();
    }
    let mut programs: BTreeMap<&str, Program> = BTreeMap::new();
    for test in tests {
        let program = programs.entry(&test.program).or_default();
        program.built = builds.get(&test.program).copied().unwrap_or_default();
        program.tests += 1;
        program.wall_s += test.wall_s;
        program.cpu_s += test.cpu_s;
    }
    let mut lines = vec![
        "\n=== slowest test programs: 'build' without linking, 'run' is the sum over its tests".to_owned(),
        " build s   link s    run s   wait s  tests  program".to_owned(),
    ];
    let (rows, rest) = slowest(programs.into_iter(), |(_, program)| program.built.whole_s + program.wall_s);
    let sum = rest.iter().fold(Program::default(), |sum, (_, one)| Program {
        built: Built {
            whole_s: sum.built.whole_s + one.built.whole_s,
            link_s: sum.built.link_s + one.built.link_s,
        },
        tests: sum.tests + one.tests,
        wall_s: sum.wall_s + one.wall_s,
        cpu_s: sum.cpu_s + one.cpu_s,
    });
    lines.extend(rows.iter().map(|(name, program)| row(without_hash(name), program)));
    if !rest.is_empty() {
        lines.push(row(&format!("{} others", rest.len()), &sum));
    }
    lines.push("\n=== slowest tests".to_owned());
    lines.push("   run s   wait s  test".to_owned());
    let (rows, rest) = slowest(tests.iter(), |test| test.wall_s);
    lines.extend(rows.iter().map(|test| {
        let wait_s = (test.wall_s - test.cpu_s).max(0.0);
        format!("{:>8.1} {:>8.1}  {}::{}", test.wall_s, wait_s, without_hash(&test.program), test.test)
    }));
    let rest_s: f64 = rest.iter().map(|test| test.wall_s).sum();
    lines.push(format!("{rest_s:>8.1}           {} others", rest.len()));
    lines
}

/// The first rows in descending order, and the rest.
fn slowest<T>(all: impl Iterator<Item = T>, seconds: impl Fn(&T) -> f64) -> (Vec<T>, Vec<T>) {
    let mut all: Vec<T> = all.collect();
    all.sort_by(|one, other| seconds(other).total_cmp(&seconds(one)));
    let rest = all.split_off(ROWS.min(all.len()));
    (all, rest)
}

fn row(name: &str, Program { built, tests, wall_s, cpu_s }: &Program) -> String {
    let build_s = (built.whole_s - built.link_s).max(0.0);
    // A test may compute on several CPUs at once.
    let wait_s = (wall_s - cpu_s).max(0.0);
    format!("{build_s:>8.1} {:>8.1} {wall_s:>8.1} {wait_s:>8.1} {tests:>6}  {name}", built.link_s)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn test(program: &str, name: &str, wall_s: f64, cpu_s: f64) -> Timed {
        Timed { program: program.into(), test: name.into(), wall_s, cpu_s, passed: true }
    }

    #[test]
    fn programs_and_tests_are_listed_by_time_and_the_rest_is_summed() {
        let builds = Builds::from([("big-1".to_owned(), Built { whole_s: 9.0, link_s: 2.0 })]);
        let mut tests = vec![test("big-1", "a::slow", 4.0, 1.0), test("big-1", "b", 1.0, 3.0)];
        tests.extend((0..20).map(|number| test(&format!("small{number}-2"), "c", 0.5, 0.5)));
        let lines = of_tests(&builds, &tests);
        assert_eq!(lines[2], "     7.0      2.0      5.0      1.0      2  big");
        assert_eq!(lines[2 + ROWS], "     0.0      0.0      4.5      0.0      9  9 others");
        let at = lines.iter().position(|line| line.contains("slowest tests")).unwrap() + 2;
        assert_eq!(lines[at], "     4.0      3.0  big::a::slow");
        assert_eq!(lines.last().unwrap(), "     5.0           10 others");
        assert!(of_tests(&builds, &[]).is_empty());
    }
}
