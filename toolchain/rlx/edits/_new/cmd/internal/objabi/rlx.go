package objabi

import _ "embed"

// rlxKey is what the builder wrote beside this file: a hash of every edit.
//
//go:embed rlx.key
var rlxKey string
