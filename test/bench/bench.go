// Package bench writes what the benchmarks below it measure: a list of rows,
// each a value beside a peer's from the same run.
package bench

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
)

// Row is one figure of build/bench/NAME.json. Ratio is Value/PeerValue; N is
// how often it was measured, the median counting.
type Row struct {
	Name      string  `json:"name"`
	Unit      string  `json:"unit"`
	Value     float64 `json:"value"`
	Peer      string  `json:"peer"`
	PeerValue float64 `json:"peer_value"`
	Ratio     float64 `json:"ratio"`
	N         int     `json:"n"`
}

// Compare makes a row of two measured values.
func Compare(name, unit string, value float64, peer string, peerValue float64, n int) Row {
	return Row{Name: name, Unit: unit, Value: value, Peer: peer, PeerValue: peerValue, Ratio: value / peerValue, N: n}
}

// Write replaces a result file; its folder is made.
func Write(file string, rows []Row) error {
	b, err := json.MarshalIndent(rows, "", "\t")
	if err != nil {
		return err
	}
	if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
		return err
	}
	if err := os.WriteFile(file, append(b, '\n'), 0o644); err != nil {
		return fmt.Errorf("write results: %w", err)
	}
	return nil
}
