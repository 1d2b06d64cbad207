//! Guesses which name was meant. Only knows strings.

/// The known name closest to `typed`, if it is close enough for a suggestion.
pub(crate) fn nearest<'a>(typed: &str, known: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    let allowed = (typed.trim_start_matches('-').chars().count() / 3).clamp(1, 3);
    known
        .into_iter()
        .filter(|name| name.len() > 2)
        .map(|name| (strsim::osa_distance(typed, name), name))
        .filter(|&(distance, _)| distance <= allowed)
        .min_by_key(|&(distance, _)| distance)
        .map(|(_, name)| name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_near_name_is_suggested() {
        let known = ["--pairs", "--iterations", "-p"];
        assert_eq!(nearest("--piars", known), Some("--pairs"));
        assert_eq!(nearest("--iteration", known), Some("--iterations"));
        assert_eq!(nearest("--payload", known), None);
        assert_eq!(nearest("-x", known), None);
    }
}
