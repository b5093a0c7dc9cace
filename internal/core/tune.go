//go:build !no_ethtune

package core

import "gwinit/services/eth/tune"

func newTuner(safe bool) tuner { return tune.New(tune.Options{Safe: safe}) }
