//! Who had the time: cuts a slow round trip into parts that each have one owner and one state, and names what was behind
//! each. Works on recorded events, never live. Must not know how they were recorded, nor how a part is shown.
