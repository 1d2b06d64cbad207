use super::*;

#[test]
fn numbers_match_the_kernels_header() {
    assert_eq!(BC_TRANSACTION, 0x4040_6300);
    assert_eq!(BC_TRANSACTION_SG, 0x4048_6311);
    assert_eq!(BC_FREE_BUFFER, 0x4008_6303);
    assert_eq!(BC_REQUEST_DEATH_NOTIFICATION, 0x400c_630e);
    assert_eq!(BC_REQUEST_FREEZE_NOTIFICATION, 0x400c_6313);
    assert_eq!(BC_CLEAR_FREEZE_NOTIFICATION, 0x400c_6314);
    assert_eq!(BC_FREEZE_NOTIFICATION_DONE, 0x4008_6315);
    assert_eq!(BR_FROZEN_BINDER, 0x8010_7215);
    assert_eq!(BR_CLEAR_FREEZE_NOTIFICATION_DONE, 0x8008_7216);
    assert_eq!(BR_TRANSACTION, 0x8040_7202);
    assert_eq!(BR_REPLY, 0x8040_7203);
    assert_eq!(BR_TRANSACTION_COMPLETE, 0x0000_7206);
    assert_eq!(BR_NOOP, 0x0000_720c);
    assert_eq!(BINDER_WRITE_READ, 0xc030_6201);
    assert_eq!(BINDER_VERSION, 0xc004_6209);
    assert_eq!(BINDER_TYPE_BINDER, 0x7362_2a85);
    assert_eq!(BINDER_TYPE_PTR, 0x7074_2a85);
}

#[test]
fn an_encoded_layout_decodes_to_the_same_value() {
    let data = TransactionData { target: 7, code: 3, buffer: u64::MAX, sender_pid: -1, ..Default::default() };
    assert_eq!(TransactionData::from_bytes(&data.to_bytes()), Some(data));
    assert_eq!(TransactionData::from_bytes(&data.to_bytes()[..63]), None);
    let packed = HandleCookie { handle: 1, cookie: 2 };
    assert_eq!(packed.to_bytes(), [1, 0, 0, 0, 2, 0, 0, 0, 0, 0, 0, 0]);
}
