//! Guesses which name was meant. Knows nothing but strings.

/// The known name that is closest to `typed`, if any is close enough to be worth suggesting.
pub(crate) fn nearest<'a>(typed: &str, known: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    let allowed = (typed.trim_start_matches('-').chars().count() / 3).clamp(1, 3);
    known
        .into_iter()
        .filter(|name| name.len() > 2)
        .map(|name| (distance(typed, name), name))
        .filter(|&(distance, _)| distance <= allowed)
        .min_by_key(|&(distance, _)| distance)
        .map(|(_, name)| name)
}

/// Letters to insert, remove, replace or swap with a neighbour to get from one name to the other (optimal string
/// alignment).
fn distance(a: &str, b: &str) -> usize {
    let (a, b): (Vec<char>, Vec<char>) = (a.chars().collect(), b.chars().collect());
    let mut before_last = vec![0; b.len() + 1];
    let mut last: Vec<usize> = (0..=b.len()).collect();
    for i in 1..=a.len() {
        let mut row = vec![i; b.len() + 1];
        for j in 1..=b.len() {
            let replaced = last[j - 1] + usize::from(a[i - 1] != b[j - 1]);
            row[j] = replaced.min(last[j] + 1).min(row[j - 1] + 1);
            if i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1] {
                row[j] = row[j].min(before_last[j - 2] + 1);
            }
        }
        before_last = std::mem::replace(&mut last, row);
    }
    last[b.len()]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn distances_count_edits_and_swaps() {
        assert_eq!(distance("", "abc"), 3);
        assert_eq!(distance("kitten", "sitting"), 3);
        assert_eq!(distance("piar", "pair"), 1);
        assert_eq!(distance("same", "same"), 0);
    }

    #[test]
    fn only_a_near_name_is_suggested() {
        let known = ["--pairs", "--iterations", "-p"];
        assert_eq!(nearest("--piars", known), Some("--pairs"));
        assert_eq!(nearest("--iteration", known), Some("--iterations"));
        assert_eq!(nearest("--payload", known), None);
        assert_eq!(nearest("-x", known), None);
    }
}
