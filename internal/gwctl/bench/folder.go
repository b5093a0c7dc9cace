package bench

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
)

// Files of a results' folder.
const (
	resultsFile = "results.json"
	reportFile  = "RESULTS.md"
	planFile    = "plan.json"
	stateFile   = "state.json"
	rawFolder   = "raw"
	plotsFolder = "plots"
)

// mostFile bounds what is read back, in bytes.
const mostFile = 64 << 20

// newFolder makes one that is not there, or is empty.
func newFolder(dir string) error {
	if err := os.MkdirAll(dir, 0o777); err != nil {
		return err
	}
	inside, err := os.ReadDir(dir)
	if err != nil {
		return err
	}
	if len(inside) > 0 {
		return fmt.Errorf("%s is not empty: -out DIR names another folder; an interrupted ab, sweep or null goes on with gwctl bench resume %s", dir, dir)
	}
	return errors.Join(os.Mkdir(filepath.Join(dir, rawFolder), 0o777), os.Mkdir(filepath.Join(dir, plotsFolder), 0o777))
}

// replace puts a file in the place of one, as a whole or not at all (INV 6).
func replace(path string, data []byte) error {
	f, err := os.CreateTemp(filepath.Dir(path), ".gwctl-*")
	if err != nil {
		return err
	}
	defer os.Remove(f.Name()) // it is not there any more, if all went well
	_, err = f.Write(data)
	if err == nil {
		err = f.Chmod(0o644)
	}
	if err = errors.Join(err, f.Sync(), f.Close()); err != nil {
		return err
	}
	return os.Rename(f.Name(), path)
}

// keep replaces a file of JSON.
func keep(dir, name string, v any) error {
	b, err := json.MarshalIndent(v, "", "  ")
	if err != nil {
		return err
	}
	return replace(filepath.Join(dir, name), append(b, '\n'))
}

// load reads a file of JSON.
func load(dir, name string, to any) error {
	path := filepath.Join(dir, name)
	info, err := os.Stat(path)
	if err != nil {
		return err
	}
	if info.Size() > mostFile {
		return fmt.Errorf("%s is larger than %d MiB", path, mostFile>>20)
	}
	b, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	if err := json.Unmarshal(b, to); err != nil {
		return fmt.Errorf("%s: %w", path, err)
	}
	return nil
}

// parsePlan and parseState read what a plan left; both refuse what cannot be one.
func parsePlan(b []byte) (p Plan, err error) {
	if err = json.Unmarshal(b, &p); err == nil {
		err = p.sane()
	}
	return p, err
}

func parseState(b []byte, p *Plan) (s State, err error) {
	if err = json.Unmarshal(b, &s); err == nil {
		err = s.sane(p)
	}
	return s, err
}

// stored is a plan as it stands in its folder.
func stored(dir string) (p Plan, s State, err error) {
	b, err := os.ReadFile(filepath.Join(dir, planFile))
	if errors.Is(err, fs.ErrNotExist) {
		return p, s, fmt.Errorf("%s holds no plan: it is no folder of bench ab, sweep or null", dir)
	}
	if err != nil {
		return p, s, err
	}
	if p, err = parsePlan(b); err != nil {
		return p, s, fmt.Errorf("%s: %w", filepath.Join(dir, planFile), err)
	}
	b, err = os.ReadFile(filepath.Join(dir, stateFile))
	if errors.Is(err, fs.ErrNotExist) {
		return p, State{Format: format}, nil
	}
	if err != nil {
		return p, s, err
	}
	if s, err = parseState(b, &p); err != nil {
		err = fmt.Errorf("%s: %w", filepath.Join(dir, stateFile), err)
	}
	return p, s, err
}

// writeRelease writes the whole of a release's folder.
func writeRelease(dir string, r *Release) error {
	return errors.Join(
		keep(dir, resultsFile, r),
		replace(filepath.Join(dir, reportFile), r.report()),
		plotRelease(filepath.Join(dir, plotsFolder), r))
}

// writeResult writes that of the others.
func writeResult(dir string, r *Result) error {
	return errors.Join(
		keep(dir, resultsFile, r),
		replace(filepath.Join(dir, reportFile), r.report()),
		plotResult(filepath.Join(dir, plotsFolder), r))
}
