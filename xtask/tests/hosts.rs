//! Nothing in the tree names the host of a mirror or a registry: what is downloaded comes from
//! where the clients of this machine are set to find it. Only documents and formats name hosts.

mod support;

/// The hosts that documents, formats and messages refer to. Nothing is downloaded from them.
const REFERRED_TO: &[&str] = &[
    // Where this project and others are developed; Cargo's lock files write it for every package.
    "github.com",
    // Names of formats and licences.
    "www.w3.org",
    "purl.org",
    "creativecommons.org",
    "matplotlib.org",
    "json-schema.org",
    "www.apache.org",
    // Tools and conventions that documents recommend.
    "nexte.st",
    "no-color.org",
    "rustup.rs",
    "ui.perfetto.dev",
];

/// The end of names that belong to nobody (RFC 2606).
const RESERVED_FOR_EXAMPLES: &str = ".example";

/// The hosts in a text: what follows `://`, without a user, a port or a path. A name without a dot
/// is no host of the internet.
fn hosts(text: &str) -> impl Iterator<Item = &str> {
    text.split("://").skip(1).filter_map(|rest| {
        let end = rest.find(|letter: char| !(letter.is_ascii_alphanumeric() || ".-@".contains(letter)));
        let host = rest[..end.unwrap_or(rest.len())].rsplit('@').next()?.trim_end_matches('.');
        host.contains('.').then_some(host)
    })
}

#[test]
fn no_file_names_the_host_of_a_mirror_or_registry() {
    let mut named = Vec::new();
    // Recordings and other files that are no text have no addresses to download from.
    let files = support::files("*");
    for (path, text) in &files {
        let unknown =
            hosts(text).filter(|host| !REFERRED_TO.contains(host) && !host.ends_with(RESERVED_FOR_EXAMPLES));
        named.extend(unknown.map(|host| format!("{path}: {host}")));
    }
    assert!(files.len() > 1000, "git lists only {} files of text", files.len());
    assert!(named.is_empty(), "{}", named.join("\n"));
}

#[test]
fn hosts_are_found_without_users_ports_and_paths() {
    let text = "a http://user@mirror.example:80/debian, <https://registry.example>. file:///etc x://b";
    assert_eq!(hosts(text).collect::<Vec<_>>(), ["mirror.example", "registry.example"]);
}
