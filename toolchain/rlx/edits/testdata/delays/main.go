// Delays holds hand-written functions whose words a test looks at. Running it
// executes those that can be.
package main

import "os"

//go:noescape
func loadUse(p *uint32) uint32

//go:noescape
func loadFill(p *uint32, n uint32) uint32

//go:noescape
func loadStore(p, q *uint32)

//go:noescape
func loadTwice(p *uint32) uint32

//go:noescape
func unaligned(p *byte) uint32

//go:noescape
func loadBranch(p *uint32) uint32

//go:noescape
func faultOrder(p, q *uint32)

//go:noescape
func far(p *byte) uint32

//go:noescape
func barrier(p *uint32) uint32

func product(a, b uint32) uint32

func twoProducts(a, b uint32) (hi, lo uint32)

func trap()

func tmp(p *uint32) uint32

func main() {
	x := [...]uint32{7, 11, 0x01020304, 0x05060708}
	b := [40008]byte{1: 1, 2: 2, 3: 3, 4: 4, 40003: 9}
	var y uint32
	loadStore(&x[0], &y)
	hi, lo := twoProducts(1<<31, 6)
	for _, ok := range []bool{
		loadUse(&x[0]) == 8,
		loadFill(&x[0], 5) == 13,
		y == 7,
		loadTwice(&x[0]) == 11,
		unaligned(&b[1]) == 0x01020304,
		loadBranch(&x[0]) == 1,
		far(&b[0]) == 9,
		barrier(&x[0]) == 18,
		product(1<<20, 1<<13+3) == 3<<20,
		hi == 3 && lo == 36,
		tmp(&x[0]) == 8,
	} {
		if ok {
			os.Stdout.WriteString("ok\n")
		} else {
			os.Stdout.WriteString("wrong\n")
		}
	}
	if len(os.Args) > 1 {
		trap()
		faultOrder(nil, nil)
	}
}
