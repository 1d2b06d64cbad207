//! Uses the whole terminal as a drawing surface, and reads keys. The terminal is restored whether
//! the command ends normally, by a signal or by a panic. Must not know what is drawn.
//!
//! All terminals since the VT100 support these escape sequences, so no terminal library is needed.
//! Crossterm would add its own signal handlers and event loop.

use std::fmt::Write as _;
use std::io::{self, IsTerminal as _, Write as _};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, Ordering};

use ratatui_core::backend::{Backend, ClearType, WindowSize};
use ratatui_core::buffer::Cell;
use ratatui_core::layout::{Position, Size};
use ratatui_core::style::{Color, Modifier};
use ratatui_core::terminal::{Frame, Terminal};
use roundtrip_bench::worker::set_before_hard_end;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::termios::{OptionalActions, Termios, tcgetattr, tcsetattr};

/// Switches to the alternate screen, which preserves the old contents, and hides the cursor.
const ENTER: &str = "\x1b[?1049h\x1b[?25l\x1b[2J";

/// Switches back to the normal screen and shows the cursor.
const LEAVE: &str = "\x1b[0m\x1b[?25h\x1b[?1049l";

/// How long to wait for a terminal that does not accept output. After this time the picture is
/// dropped.
const PATIENCE: Timespec = Timespec { tv_sec: 0, tv_nsec: 500_000_000 };

/// Whether the terminal is currently used as a drawing surface.
static OPEN: AtomicBool = AtomicBool::new(false);

/// The earlier terminal settings.
static BEFORE: OnceLock<Termios> = OnceLock::new();

/// A key that the user pressed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Key {
    /// q or Ctrl-C.
    End,
    /// m.
    Mark,
    /// Tab.
    Next,
}

/// The terminal, until it is dropped.
pub(crate) struct Screen {
    terminal: Terminal<Surface>,
    /// The terminal's size when the last picture was drawn.
    drawn: Size,
    /// Whether keys can be read.
    pub(crate) keys: bool,
}

/// Whether standard output can be drawn on.
pub(crate) fn can_draw() -> bool {
    let able = std::env::var("TERM").is_ok_and(|term| !term.is_empty() && term != "dumb");
    io::stdout().is_terminal() && able
}

impl Screen {
    /// Takes control of the terminal.
    ///
    /// # Errors
    /// If it cannot be written to.
    pub(crate) fn open(colour: bool) -> io::Result<Self> {
        let keyboard = io::stdin();
        let keys = keyboard.is_terminal();
        static PREPARED: OnceLock<()> = OnceLock::new();
        PREPARED.get_or_init(|| {
            let report = std::panic::take_hook();
            std::panic::set_hook(Box::new(move |panic| {
                leave();
                report(panic);
            }));
            set_before_hard_end(leave);
        });
        OPEN.store(true, Ordering::SeqCst);
        if keys {
            let mut settings = tcgetattr(&keyboard)?;
            let _ = BEFORE.set(settings.clone());
            settings.make_raw();
            tcsetattr(&keyboard, OptionalActions::Now, &settings)?;
        }
        let mut out = io::stdout();
        out.write_all(ENTER.as_bytes())?;
        // Without this, a panic's message would be written before the escape sequences.
        out.flush()?;
        let terminal = Terminal::new(Surface { pending: String::new(), colour })?;
        Ok(Self { terminal, drawn: Size::ZERO, keys })
    }

    /// Draws a picture. Only changes are written.
    ///
    /// # Errors
    /// If the terminal is gone.
    pub(crate) fn draw(&mut self, picture: impl FnOnce(&mut Frame<'_>)) -> io::Result<()> {
        self.drawn = size();
        self.terminal.draw(picture).map(drop)
    }

    /// Whether the terminal's size has changed since the last picture.
    pub(crate) fn is_resized(&self) -> bool {
        size() != self.drawn
    }

    /// The keys pressed since the last call. Does not block.
    pub(crate) fn pressed(&self) -> Vec<Key> {
        if !self.keys {
            return Vec::new();
        }
        let keyboard = rustix::stdio::stdin();
        let mut bytes = [0; 64];
        let at_once = Timespec { tv_sec: 0, tv_nsec: 0 };
        match poll(&mut [PollFd::new(&keyboard, PollFlags::IN)], Some(&at_once)) {
            Ok(1..) => {}
            _ => return Vec::new(),
        }
        match rustix::io::read(keyboard, &mut bytes) {
            // If the terminal is gone, end the command, as for the key q.
            Ok(0) | Err(rustix::io::Errno::IO) => vec![Key::End],
            Ok(read) => keys(&bytes[..read]),
            Err(_) => Vec::new(),
        }
    }
}

impl Drop for Screen {
    fn drop(&mut self) {
        leave();
    }
}

/// Restores the terminal, once. Allocates and locks nothing, because a signal handler also calls
/// it.
fn leave() {
    if !OPEN.swap(false, Ordering::SeqCst) {
        return;
    }
    // If the terminal is gone, there is nothing to restore.
    let _ = rustix::io::write(rustix::stdio::stdout(), LEAVE.as_bytes());
    if let Some(before) = BEFORE.get() {
        let _ = tcsetattr(rustix::stdio::stdin(), OptionalActions::Now, before);
    }
}

/// Decodes bytes from the keyboard. Keys that send escape sequences are ignored.
fn keys(bytes: &[u8]) -> Vec<Key> {
    let mut found = Vec::new();
    let mut rest = bytes.iter();
    while let Some(byte) = rest.next() {
        match byte {
            b'q' | b'Q' | 3 => found.push(Key::End),
            b'm' | b'M' => found.push(Key::Mark),
            b'\t' => found.push(Key::Next),
            0x1b => match rest.next() {
                Some(b'[') => drop(rest.by_ref().find(|&&byte| (0x40..=0x7e).contains(&byte))),
                Some(b'O') => drop(rest.next()),
                _ => {}
            },
            _ => {}
        }
    }
    found
}

fn size() -> Size {
    // Serial terminals report a size of 0.
    let size = terminal_size::terminal_size_of(io::stdout());
    size.map_or(USUAL, |(columns, rows)| drawable(columns.0, rows.0))
}

/// The size if the terminal does not report one.
const USUAL: Size = Size::new(80, 24);

/// The largest surface that is drawn on. A picture takes memory for each of its cells, and a
/// terminal may report any size.
const LARGEST: Size = Size::new(1000, 400);

/// The surface on a terminal that reports this size.
fn drawable(columns: u16, rows: u16) -> Size {
    match (columns, rows) {
        (0, _) | (_, 0) => USUAL,
        _ => Size::new(columns.min(LARGEST.width), rows.min(LARGEST.height)),
    }
}

/// Writes a picture's cells to the terminal.
struct Surface {
    pending: String,
    colour: bool,
}

impl Surface {
    fn style(&mut self, cell: &Cell) {
        self.pending.push_str("\x1b[0");
        for (modifier, code) in [(Modifier::BOLD, 1), (Modifier::DIM, 2), (Modifier::UNDERLINED, 4)] {
            if cell.modifier.contains(modifier) {
                let _ = write!(self.pending, ";{code}");
            }
        }
        let colour = match cell.fg {
            Color::Red => Some(31),
            Color::Green => Some(32),
            Color::Yellow => Some(33),
            Color::Cyan => Some(36),
            _ => None,
        };
        if let Some(code) = colour.filter(|_| self.colour) {
            let _ = write!(self.pending, ";{code}");
        }
        self.pending.push('m');
    }
}

impl Backend for Surface {
    type Error = io::Error;

    fn draw<'a, I: Iterator<Item = (u16, u16, &'a Cell)>>(&mut self, content: I) -> io::Result<()> {
        let mut last: Option<(u16, u16, &Cell)> = None;
        for (x, y, cell) in content {
            if last.is_none_or(|(before, line, _)| (before + 1, line) != (x, y)) {
                let _ = write!(self.pending, "\x1b[{};{}H", y + 1, x + 1);
            }
            if last.is_none_or(|(_, _, last)| (last.fg, last.modifier) != (cell.fg, cell.modifier)) {
                self.style(cell);
            }
            self.pending.push_str(cell.symbol());
            last = Some((x, y, cell));
        }
        Ok(())
    }

    fn hide_cursor(&mut self) -> io::Result<()> {
        Ok(())
    }

    fn show_cursor(&mut self) -> io::Result<()> {
        Ok(())
    }

    fn get_cursor_position(&mut self) -> io::Result<Position> {
        Ok(Position::ORIGIN)
    }

    fn set_cursor_position<P: Into<Position>>(&mut self, position: P) -> io::Result<()> {
        let Position { x, y } = position.into();
        let _ = write!(self.pending, "\x1b[{};{}H", y + 1, x + 1);
        Ok(())
    }

    fn clear(&mut self) -> io::Result<()> {
        self.pending.push_str("\x1b[0m\x1b[2J");
        Ok(())
    }

    fn clear_region(&mut self, region: ClearType) -> io::Result<()> {
        self.pending.push_str(match region {
            ClearType::All => "\x1b[2J",
            ClearType::AfterCursor => "\x1b[J",
            ClearType::BeforeCursor => "\x1b[1J",
            ClearType::CurrentLine => "\x1b[2K",
            ClearType::UntilNewLine => "\x1b[K",
        });
        Ok(())
    }

    fn size(&self) -> io::Result<Size> {
        Ok(size())
    }

    fn window_size(&mut self) -> io::Result<WindowSize> {
        Ok(WindowSize { columns_rows: size(), pixels: Size::ZERO })
    }

    fn flush(&mut self) -> io::Result<()> {
        let stdout = rustix::stdio::stdout();
        match poll(&mut [PollFd::new(&stdout, PollFlags::OUT)], Some(&PATIENCE)) {
            // If the terminal is stopped (Ctrl-S), skip this output. The terminal shows a later
            // picture.
            Ok(0) => Ok(()),
            _ => {
                let mut out = io::stdout();
                out.write_all(self.pending.as_bytes())?;
                self.pending.clear();
                out.flush()
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::process::{Command, Stdio};

    use roundtrip_skips::{Need, skip};

    use super::*;

    #[test]
    fn keys_are_known_among_sequences_that_mean_nothing() {
        assert_eq!(keys(b"m\tq"), [Key::Mark, Key::Next, Key::End]);
        assert_eq!(keys(&[3]), [Key::End]);
        // Cursor up, F5, the keypad's minus, Alt-m, a single escape.
        assert_eq!(keys(b"\x1b[A\x1b[15~\x1bOm\x1bm\x1b"), []);
        assert_eq!(keys(b"\x1b[1;5Cm"), [Key::Mark]);
        assert_eq!(keys(b"xyz"), []);
    }

    #[test]
    fn a_terminal_of_any_size_can_be_drawn_on() {
        assert_eq!(drawable(120, 40), Size::new(120, 40));
        assert_eq!(drawable(u16::MAX, u16::MAX), LARGEST);
        assert_eq!((drawable(0, 40), drawable(80, 0)), (USUAL, USUAL));
    }

    #[test]
    fn cells_become_few_escape_sequences_and_no_colour_where_none_is_wanted() {
        let cells: Vec<Cell> = "abc".chars().map(Cell::from).collect();
        let drawn = |colour, cells: &[Cell]| {
            let mut surface = Surface { pending: String::new(), colour };
            let at = [(4, 1), (5, 1), (9, 1)];
            surface.draw(at.into_iter().zip(cells).map(|((x, y), cell)| (x, y, cell))).unwrap();
            surface.pending
        };
        assert_eq!(drawn(true, &cells), "\x1b[2;5H\x1b[0mab\x1b[2;10Hc");
        let mut red = cells;
        red[1].fg = Color::Red;
        red[1].modifier = Modifier::BOLD;
        assert_eq!(drawn(true, &red), "\x1b[2;5H\x1b[0ma\x1b[0;1;31mb\x1b[2;10H\x1b[0mc");
        assert_eq!(drawn(false, &red), "\x1b[2;5H\x1b[0ma\x1b[0;1mb\x1b[2;10H\x1b[0mc");
    }

    /// Set if the process of the test below should panic.
    const PANICS: &str = "ROUNDTRIP_TEST_PANICS";

    #[test]
    fn a_panic_is_reported_after_the_terminal_is_given_back() {
        if std::env::var_os(PANICS).is_some() {
            let _screen = Screen::open(true).unwrap();
            panic!("on purpose");
        }
        let need = Need::Program("script");
        if !need.is_met() {
            return skip(need, "there is no terminal to draw on");
        }
        let test = "screen::tests::a_panic_is_reported_after_the_terminal_is_given_back";
        let program = std::env::current_exe().unwrap();
        let line = format!("stty -g; '{}' --exact {test} --nocapture; stty -g", program.display());
        let mut command = Command::new("script");
        command.args(["-qec", &line, "/dev/null"]).env(PANICS, "1").stdin(Stdio::null());
        let output = String::from_utf8(command.output().unwrap().stdout).unwrap();
        let (before, drawn) = output.split_once('\n').unwrap();
        let (entered, reported) =
            (drawn.find(ENTER).expect("it drew"), drawn.find("on purpose").expect("it reported the panic"));
        let left = drawn.find(LEAVE).expect("it gave the terminal back");
        assert!(entered < left && left < reported, "{output:?}");
        assert_eq!(before.trim(), output.trim_end().lines().last().unwrap().trim());
    }
}
