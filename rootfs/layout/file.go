package layout

import (
	"fmt"
	"os"
)

// File is the binary in the file gw as it ships, with what a boot touches in
// front: symbolMap is the file that its linker wrote, bootOrder the one with the
// list of what a boot touches. It is in memory what it was.
func File(gw, symbolMap, bootOrder string) ([]byte, error) {
	bin, err := os.ReadFile(gw)
	if err != nil {
		return nil, fmt.Errorf("%w; `make gw` builds it", err)
	}
	m, err := os.Open(symbolMap)
	if err != nil {
		return nil, fmt.Errorf("%w; `make gw` writes it", err)
	}
	defer m.Close()
	symbols, err := ReadMap(m)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", symbolMap, err)
	}
	list, err := os.Open(bootOrder)
	if err != nil {
		return nil, err
	}
	defer list.Close()
	hot, err := Hot(list, symbols)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", bootOrder, err)
	}
	arranged, err := Arrange(bin, hot)
	if err != nil {
		return nil, err
	}
	return arranged, Same(bin, arranged)
}
