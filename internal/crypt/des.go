package crypt

import "strings"

// The traditional form: DES with a salt, 25 times, of a block of zeros. A bit
// is a byte here, as in the seventh edition's implementation: that is small,
// and some milliseconds on the gateway are not too slow. Tables are those of
// FIPS 46-3.

var (
	choice1 = [56]byte{
		57, 49, 41, 33, 25, 17, 9, 1, 58, 50, 42, 34, 26, 18, 10, 2, 59, 51, 43, 35, 27, 19, 11, 3, 60, 52, 44, 36,
		63, 55, 47, 39, 31, 23, 15, 7, 62, 54, 46, 38, 30, 22, 14, 6, 61, 53, 45, 37, 29, 21, 13, 5, 28, 20, 12, 4,
	}
	choice2 = [48]byte{
		14, 17, 11, 24, 1, 5, 3, 28, 15, 6, 21, 10, 23, 19, 12, 4, 26, 8, 16, 7, 27, 20, 13, 2,
		41, 52, 31, 37, 47, 55, 30, 40, 51, 45, 33, 48, 44, 49, 39, 56, 34, 53, 46, 42, 50, 36, 29, 32,
	}
	permutation = [32]byte{16, 7, 20, 21, 29, 12, 28, 17, 1, 15, 23, 26, 5, 18, 31, 10, 2, 8, 24, 14, 32, 27, 3, 9, 19, 13, 30, 6, 22, 11, 4, 25}
)

// substitutions has four rows of 16 hexadecimal digits for each S-box.
const substitutions = "" +
	"e4d12fb83a6c5907" + "0f74e2d1a6cb9538" + "41e8d62bfc973a50" + "fc8249175b3ea06d" +
	"f18e6b34972dc05a" + "3d47f28ec01a69b5" + "0e7ba4d158c6932f" + "d8a13f42b67c05e9" +
	"a09e63f51dc7b428" + "d709346a285ecbf1" + "d6498f30b12c5ae7" + "1ad069874fe3b52c" +
	"7de3069a1285bc4f" + "d8b56f03472c1ae9" + "a690cb7df13e5284" + "3f06a1d8945bc72e" +
	"2c417ab6853fd0e9" + "eb2c47d150fa3986" + "421bad78f9c5630e" + "b8c71e2d6f09a453" +
	"c1af92680d34e75b" + "af427c9561de0b38" + "9ef528c3704a1db6" + "432c95fabe17608d" +
	"4b2ef08d3c975a61" + "d0b7491ae35c2f86" + "14bdc37eaf680592" + "6bd814a7950fe23c" +
	"d2846fb1a93e50c7" + "1fd8a374c56b0e92" + "7b419ce206adf358" + "21e74a8dfc90356b"

// oneShift marks the rounds before which the key moves by one bit and not two.
const oneShift = 1<<0 | 1<<1 | 1<<8 | 1<<15

// desCrypt is password with a salt of two characters. Only the lower seven
// bits of its first eight bytes count.
func desCrypt(password, salt string) string {
	var boxes [8 * 64]byte
	for i := range boxes {
		boxes[i] = byte(strings.IndexByte("0123456789abcdef", substitutions[i]))
	}
	var key [64]byte
	for i := range min(len(password), 8) {
		for j := range 7 {
			key[8*i+j] = password[i] >> (6 - j) & 1
		}
	}
	// The expansion of 32 bits to 48, in which the salt swaps some.
	var expansion [48]int
	for i := range expansion {
		expansion[i] = (i/6*4 + i%6 + 31) % 32
	}
	for i := range 2 {
		v := strings.IndexByte(alphabet, salt[i])
		for j := range 6 {
			if a := 6*i + j; v>>j&1 != 0 {
				expansion[a], expansion[a+24] = expansion[a+24], expansion[a]
			}
		}
	}
	keys := schedule(&key)
	var block [64]byte
	for range 25 {
		encrypt(&block, &keys, &expansion, &boxes)
	}
	out := []byte(salt[:2])
	for i := 0; i < 66; i += 6 {
		v := 0
		for j := range 6 {
			v <<= 1
			if i+j < len(block) {
				v |= int(block[i+j])
			}
		}
		out = append(out, alphabet[v])
	}
	return string(out)
}

func schedule(key *[64]byte) (keys [16][48]byte) {
	var cd [56]byte
	for i, from := range choice1 {
		cd[i] = key[from-1]
	}
	for round := range keys {
		n := 2
		if oneShift>>round&1 != 0 {
			n = 1
		}
		for ; n > 0; n-- {
			c, d := cd[0], cd[28]
			copy(cd[:27], cd[1:28])
			copy(cd[28:55], cd[29:])
			cd[27], cd[55] = c, d
		}
		for i, from := range choice2 {
			keys[round][i] = cd[from-1]
		}
	}
	return keys
}

// initial is where bit i of the permuted block comes from.
func initial(i int) int { return 57 + 2*(i/8%4) - i/32 - 8*(i%8) }

func encrypt(block *[64]byte, keys *[16][48]byte, expansion *[48]int, boxes *[8 * 64]byte) {
	var lr [64]byte
	for i := range lr {
		lr[i] = block[initial(i)]
	}
	l, r := lr[:32], lr[32:]
	for round := range keys {
		var f [32]byte
		for box := range 8 {
			var v [6]byte
			for i := range v {
				at := 6*box + i
				v[i] = r[expansion[at]] ^ keys[round][at]
			}
			s := boxes[64*box+int(v[0]<<5|v[5]<<4|v[1]<<3|v[2]<<2|v[3]<<1|v[4])]
			for i := range 4 {
				f[4*box+i] = s >> (3 - i) & 1
			}
		}
		var next [32]byte
		for i, from := range permutation {
			next[i] = l[i] ^ f[from-1]
		}
		copy(l, r)
		copy(r, next[:])
	}
	// The halves are swapped once more, and the first permutation undone.
	for i := range 32 {
		block[initial(i)], block[initial(i+32)] = r[i], l[i]
	}
}
