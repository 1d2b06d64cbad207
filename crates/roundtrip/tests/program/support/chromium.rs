//! A real headless Chromium, controlled over two pipes by its DevTools protocol. This file knows no
//! page.

use std::io::{BufRead as _, BufReader, Write as _};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::mpsc::{Receiver, channel};
use std::time::{Duration, Instant};

use serde_json::{Value, json};

/// The browser's program names on Debian and other systems.
const NAMES: [&str; 4] = ["chromium", "chromium-browser", "google-chrome", "google-chrome-stable"];

/// The timeout for an answer.
const PATIENCE: Duration = Duration::from_secs(60);

/// A running browser with one page.
pub(crate) struct Browser {
    child: Child,
    to: ChildStdin,
    from: Receiver<Value>,
    /// Events of the page that arrived meanwhile.
    events: Vec<Value>,
    next: u64,
    session: Option<String>,
    /// Its profile, and its temporary files, which it leaves if it is killed.
    folder: PathBuf,
}

impl Browser {
    /// The browser's name on this machine, if it is installed.
    pub(crate) fn name() -> Option<&'static str> {
        let path = std::env::var_os("PATH")?;
        NAMES.into_iter().find(|name| std::env::split_paths(&path).any(|folder| folder.join(name).is_file()))
    }

    /// Starts this browser.
    pub(crate) fn start(name: &str, test: &str) -> Self {
        // A short name, because it creates sockets there.
        let folder = std::env::temp_dir().join(format!("browser-{}-{test}", std::process::id()));
        std::fs::create_dir_all(&folder).unwrap();
        // The protocol's pipes are descriptors 3 and 4.
        let mut child = Command::new("sh")
            .args(["-c", "exec \"$0\" \"$@\" 3<&0 4>&1 </dev/null >/dev/null 2>&1", name])
            .args(["--headless", "--no-sandbox", "--disable-gpu", "--hide-scrollbars", "--mute-audio"])
            .args(["--no-first-run", "--disable-dev-shm-usage", "--remote-debugging-pipe"])
            .args(["--disable-background-networking", "--disable-component-update", "--disable-sync"])
            .arg(format!("--user-data-dir={}", folder.join("profile").display()))
            .arg("about:blank")
            .env("TMPDIR", &folder)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let (to, mut from_browser) =
            (child.stdin.take().unwrap(), BufReader::new(child.stdout.take().unwrap()));
        let (sender, from) = channel();
        std::thread::spawn(move || {
            let mut message = Vec::new();
            while from_browser.read_until(0, &mut message).is_ok_and(|length| length > 0) {
                let parsed = serde_json::from_slice(message.strip_suffix(&[0]).unwrap_or(&message));
                if parsed.map(|value| sender.send(value).is_err()).unwrap_or(true) {
                    break;
                }
                message.clear();
            }
        });
        let (events, next, session) = (Vec::new(), 0, None);
        let mut browser = Self { child, to, from, events, next, session, folder };
        let target = browser.call("Target.createTarget", json!({ "url": "about:blank" }));
        let attach = json!({ "targetId": target["targetId"], "flatten": true });
        let attached = browser.call("Target.attachToTarget", attach);
        browser.session = Some(attached["sessionId"].as_str().unwrap().to_owned());
        for domain in ["Page", "Runtime", "Log", "Network", "Security"] {
            browser.call(&format!("{domain}.enable"), json!({}));
        }
        browser
    }

    /// Calls a method of the protocol.
    pub(crate) fn call(&mut self, method: &str, parameters: Value) -> Value {
        self.next += 1;
        let mut message = json!({ "id": self.next, "method": method, "params": parameters });
        if let Some(session) = &self.session {
            message["sessionId"] = json!(session);
        }
        self.to.write_all(message.to_string().as_bytes()).unwrap();
        self.to.write_all(&[0]).unwrap();
        self.to.flush().unwrap();
        let id = json!(self.next);
        let answer = self.wait(method, |message| message["id"] == id);
        assert!(answer.get("error").is_none(), "{method}: {}", answer["error"]);
        answer["result"].clone()
    }

    /// The next message of this kind. Earlier ones are kept.
    fn wait(&mut self, what: &str, wanted: impl Fn(&Value) -> bool) -> Value {
        let until = Instant::now() + PATIENCE;
        loop {
            let left = until.saturating_duration_since(Instant::now());
            let message = self
                .from
                .recv_timeout(left)
                .unwrap_or_else(|error| panic!("{what}: the browser does not answer: {error}"));
            if wanted(&message) {
                return message;
            }
            self.events.push(message);
        }
    }

    /// Opens a file, and returns when it has loaded.
    pub(crate) fn open(&mut self, file: &Path) {
        self.events.clear();
        self.call("Page.navigate", json!({ "url": format!("file://{}", file.display()) }));
        let loaded = |message: &Value| message["method"] == "Page.loadEventFired";
        if !self.events.iter().any(loaded) {
            let message = self.wait("loading", loaded);
            self.events.push(message);
        }
    }

    /// The value of an expression in the page. Waits for promises.
    pub(crate) fn evaluate(&mut self, expression: &str) -> Value {
        let parameters = json!({ "expression": expression, "returnByValue": true, "awaitPromise": true });
        let answer = self.call("Runtime.evaluate", parameters);
        assert!(answer.get("exceptionDetails").is_none(), "{expression}: {answer}");
        answer["result"]["value"].clone()
    }

    /// Sets the size of the page's window, in CSS pixels, and its colour scheme.
    pub(crate) fn window(&mut self, width: u32, height: u32, scheme: &str) {
        let metrics = json!({ "width": width, "height": height, "deviceScaleFactor": 1, "mobile": false });
        self.call("Emulation.setDeviceMetricsOverride", metrics);
        let features = json!({ "features": [{ "name": "prefers-color-scheme", "value": scheme }] });
        self.call("Emulation.setEmulatedMedia", features);
        // Wait until the effects of the resize have been drawn.
        self.evaluate(
            "new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(() => done(1))))",
        );
    }

    /// Presses a key.
    pub(crate) fn press(&mut self, key: &str) {
        let text = if key.chars().count() == 1 { key } else { "" };
        let code = match key {
            "Tab" => 9,
            "Enter" => 13,
            _ => 0,
        };
        let text = if key == "Enter" { "\r" } else { text };
        let of =
            |kind: &str| json!({ "type": kind, "key": key, "text": text, "windowsVirtualKeyCode": code });
        self.call("Input.dispatchKeyEvent", of("keyDown"));
        let up = json!({ "type": "keyUp", "key": key, "windowsVirtualKeyCode": code });
        self.call("Input.dispatchKeyEvent", up);
    }

    /// Stores the window's contents as a PNG.
    pub(crate) fn screenshot(&mut self, to: &Path) {
        let picture = self.call("Page.captureScreenshot", json!({ "format": "png" }));
        std::fs::write(to, decoded(picture["data"].as_str().unwrap())).unwrap();
    }

    /// The page's console: messages, exceptions, and violations of its policy.
    pub(crate) fn console(&self) -> Vec<String> {
        let methods = ["Runtime.consoleAPICalled", "Runtime.exceptionThrown", "Log.entryAdded"];
        let events =
            self.events.iter().filter(|event| methods.iter().any(|method| event["method"] == *method));
        events.map(|event| event["params"].to_string()).collect()
    }

    /// Requests to a network or for files, other than for the page itself.
    pub(crate) fn requests(&self) -> Vec<String> {
        let sent = self.events.iter().filter(|event| event["method"] == "Network.requestWillBeSent");
        let of_page = |event: &&Value| event["params"]["type"] != "Document";
        sent.filter(of_page).map(|event| event["params"]["request"]["url"].to_string()).collect()
    }
}

impl Drop for Browser {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
        // Its helper processes end with it, but not immediately.
        for _ in 0..50 {
            if std::fs::remove_dir_all(&self.folder).is_ok() || !self.folder.exists() {
                return;
            }
            std::thread::sleep(Duration::from_millis(100));
        }
    }
}

/// Decodes base64 (RFC 4648).
fn decoded(text: &str) -> Vec<u8> {
    const DIGITS: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    let digits: Vec<u32> = text
        .bytes()
        .filter_map(|byte| DIGITS.iter().position(|digit| *digit == byte))
        .map(|digit| digit as u32)
        .collect();
    let mut out = Vec::with_capacity(digits.len() * 3 / 4);
    for four in digits.chunks(4) {
        let bits = four.iter().enumerate().fold(0, |bits, (at, digit)| bits | digit << (18 - 6 * at));
        out.extend(&bits.to_be_bytes()[1..four.len()]);
    }
    out
}
