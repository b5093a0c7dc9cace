//go:build !no_ethtune

package core

import "gwinit/services/eth/tune"

func newTuner() tuner { return tune.New(tune.Options{}) }
