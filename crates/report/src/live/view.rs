//! What both pictures for a terminal share: what they show in addition to a session, and lines of
//! text. Must not know what was measured.

use ratatui_core::layout::Rect;
use ratatui_core::style::{Color, Modifier, Style};
use ratatui_core::terminal::Frame;
use ratatui_widgets::paragraph::Paragraph;

/// What to show in addition to the measurements.
#[derive(Debug, Clone, Copy)]
pub struct View<'a> {
    /// The title.
    pub title: &'a str,
    /// Whether the terminal shows colours.
    pub colour: bool,
    /// Whether the user can press keys.
    pub keys: bool,
    /// The time since the start, in nanoseconds.
    pub elapsed_ns: u64,
    /// The length of the last interval, in nanoseconds.
    pub interval_ns: u64,
}

impl View<'_> {
    pub(crate) fn style(&self, colour: Color) -> Style {
        if self.colour { Style::new().fg(colour) } else { Style::new() }
    }
}

/// Writes the title, if there is room for more than one line.
pub(crate) fn title(frame: &mut Frame<'_>, room: &mut Rect, view: &View<'_>) {
    if room.height > 1 {
        let text = format!("{} s  {}", view.elapsed_ns / 1_000_000_000, view.title);
        put(frame, take(room, 1), text, Style::new().add_modifier(Modifier::BOLD));
    }
}

/// Takes rows from the top of the remaining room.
pub(crate) fn take(room: &mut Rect, rows: u16) -> Rect {
    let height = rows.min(room.height);
    let taken = Rect { height, ..*room };
    (room.y, room.height) = (room.y + height, room.height - height);
    taken
}

pub(crate) fn put(frame: &mut Frame<'_>, at: Rect, text: String, style: Style) {
    frame.render_widget(Paragraph::new(text).style(style), at);
}
