package engine

// quarantineDir holds what a recovery set aside.
const quarantineDir = systemDir + "/quarantine"
