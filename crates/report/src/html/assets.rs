//! The page's style and script, the chart library, and the frame that combines them with the data.
//! The page's Content-Security-Policy lists each of them by its hash, which the build computes.

use crate::text::inert;

const STYLE: &str = include_str!("../../../../web/report.css");
const LIBRARY_STYLE: &str = include_str!("../../../../web/uplot/uPlot.min.css");
const LIBRARY: &str = include_str!("../../../../web/uplot/uPlot.iife.min.js");
const SCRIPT: &str = include_str!("../../../../web/report.js");
const LICENCE: &str = include_str!("../../../../web/uplot/LICENSE");

/// The whole document.
pub(super) fn document(title: &str, body: &str, data: &str) -> String {
    let policy = format!(
        "default-src 'none'; style-src '{}' '{}'; script-src '{}' '{}'; base-uri 'none'; form-action 'none'",
        env!("STYLE_HASH"),
        env!("LIBRARY_STYLE_HASH"),
        env!("LIBRARY_HASH"),
        env!("SCRIPT_HASH"),
    );
    let title = inert::html(title);
    let policy = inert::html(&policy);
    let licence = inert::html(&LICENCE.replace('\n', " "));
    format!(
        "<!doctype html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n\
         <meta http-equiv=\"Content-Security-Policy\" content=\"{policy}\">\n\
         <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n\
         <meta name=\"color-scheme\" content=\"light dark\">\n<title>{title} - Roundtrip</title>\n\
         <style>{LIBRARY_STYLE}</style>\n<style>{STYLE}</style>\n</head>\n<body>\n{body}\n\
         <footer><details><summary>Made with Roundtrip; charts by uPlot</summary><p>{licence}</p></details></footer>\n\
         <script type=\"application/json\" id=\"data\">{data}</script>\n\
         <script>{LIBRARY}</script>\n<script>{SCRIPT}</script>\n</body>\n</html>\n"
    )
}
