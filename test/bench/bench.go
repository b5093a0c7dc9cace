// Package bench writes what the benchmarks below it measure: a list of rows,
// each a value beside a peer's from the same run.
package bench

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"

	"gwinit/internal/mtdimage"
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

// Userdata packs a folder as the board's writable partition.
func Userdata(ctx context.Context, dir, stage string) (image string, err error) {
	image = filepath.Join(dir, "userdata.jffs2")
	cmd := exec.CommandContext(ctx, "mkfs.jffs2", "-r", stage, "-o", image, "-b", "-e", "0x10000", "-n", "-q", fmt.Sprintf("--pad=%d", mtdimage.UserdataSize))
	if out, err := cmd.CombinedOutput(); err != nil {
		return "", fmt.Errorf("mkfs.jffs2: %w\n%s", err, out)
	}
	return image, nil
}
