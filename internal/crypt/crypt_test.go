package crypt

import (
	"errors"
	"strings"
	"testing"
)

// The vectors are those of PHP's manual (DES, MD5), of the specification of
// SHA-crypt, and of libxcrypt.
func TestVerify(t *testing.T) {
	for _, tt := range []struct{ name, password, stored string }{
		{"DES, PHP", "rasmuslerdorf", "rl.3StKT.4T8M"},
		{"DES", "root", "ab6TRGT20sY26"},
		{"DES, empty", "", "zz6dpSdr.LHZw"},
		{"MD5, PHP", "rasmuslerdorf", "$1$rasmusle$rISCgZzpwk3UhDidwXvin0"},
		{"MD5", "root", "$1$abcdefgh$rV6RhG4no19bGJfmub3Ui1"},
		{"MD5, eight bits", "päss", "$1$ab$HKU0BHffVFSU9ZlG98TKC/"},
		{"SHA-256, specification", "Hello world!", "$5$saltstring$5B8vYYiY.CVt1RlTTf8KbXBH3hsxY/GNooZaBBGWEc5"},
		{"SHA-256, rounds", "root", "$5$rounds=1000$saltstring$IhhbT5r95TOTJHUUrsJ/MqJ0K6mj4AY9MzvFDjI7671"},
		{"SHA-512, specification", "Hello world!", "$6$saltstring$svn8UoSVapNtMuq1ukKS4tPQd8iKwSMHWjl/O817G3uBnIFNjnQJuesI68u4OTLiBFdcbYEdFCoEOfaS35inz1"},
		{"SHA-512", "root", "$6$saltstringsaltst$Es7OVLNufgw4YtTmce7dj.D.zZJ63puHUNgla4PkChfsWMOU4kdeHdkVmjbP8/eQCWh4t.17bGSLHtnXSHUXX0"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			if ok, err := Verify(tt.stored, tt.password); !ok || err != nil {
				again, _ := hashAs(tt.stored, tt.password)
				t.Errorf("%v, %v; made %s of %s", ok, err, again, tt.stored)
			}
			if ok, err := Verify(tt.stored, tt.password+"x"); ok != (tt.name == "DES, PHP") || err != nil {
				t.Errorf("another password: %v, %v", ok, err) // DES looks at eight bytes
			}
			if !Supported(tt.stored) {
				t.Error("not supported")
			}
		})
	}
}

func TestForms(t *testing.T) {
	for _, stored := range []string{
		"", "!", "*", "x", "ab6TRGT20sY2", "ab6TRGT20sY26x", "ab6TRGT20sY2!", "$", "$1", "$2b$10$abc", "$y$j9T$abc$def",
		"$6$rounds=999$salt$x", "$6$rounds=999999999$salt$x", "$6$rounds=5k$salt$x", "$7$x$y", "$5$a:b$c",
	} {
		ok, err := Verify(stored, "root")
		supported := Supported(stored)
		if stored == "$1" {
			// It is of a form that is known, and matches nothing.
			if ok || err != nil {
				t.Errorf("%q: %v, %v", stored, ok, err)
			}
			continue
		}
		if ok || !errors.Is(err, ErrForm) || supported {
			t.Errorf("%q: %v, %v, supported %v", stored, ok, err, supported)
		}
	}
	for stored, cheap := range map[string]bool{"ab6TRGT20sY26": true, "$1$ab$x": true, "$5$ab$x": false, "$6$ab$x": false, "!": false} {
		if Cheap(stored) != cheap {
			t.Errorf("Cheap(%q) = %v", stored, !cheap)
		}
	}
}

func TestLongPassword(t *testing.T) {
	stored, err := SHA512(strings.Repeat("a", MaxPassword), "aaaaaaaa")
	if err != nil || stored != "$6$aaaaaaaa$FRMFbzxs4i.MOvt.3pIM.hpPWICNO4.X1Ap5KreHCfQTVdp53vg8vb9L34BrC6OURCp0S0.QRaxZeFR5X.1Lc." {
		t.Errorf("%s, %v", stored, err)
	}
	if ok, err := Verify(stored, strings.Repeat("a", MaxPassword+1)); ok || err != nil {
		t.Errorf("%v, %v", ok, err)
	}
	if _, err := SHA512(strings.Repeat("a", MaxPassword+1), "aaaaaaaa"); err == nil {
		t.Error("made one of a password that Verify refuses")
	}
	if _, err := SHA512("a", "short"); err == nil {
		t.Error("a short salt")
	}
}

func TestMake(t *testing.T) {
	salt := Salt([12]byte{0, 0, 0, 255, 255, 255, 1, 2, 3})
	if len(salt) != 16 || !strings.HasPrefix(salt, "....zzzz") || !encoded(salt) {
		t.Errorf("salt %s", salt)
	}
	stored, err := SHA512("correct horse", salt)
	if err != nil || !strings.HasPrefix(stored, "$6$"+salt+"$") || len(stored) != 3+16+1+86 {
		t.Errorf("%s, %v", stored, err)
	}
	if ok, err := Verify(stored, "correct horse"); !ok || err != nil {
		t.Errorf("%v, %v", ok, err)
	}
}

// The S-boxes' rows are permutations.
func TestSubstitutions(t *testing.T) {
	for i := 0; i < len(substitutions); i += 16 {
		for _, digit := range "0123456789abcdef" {
			if strings.Count(substitutions[i:i+16], string(digit)) != 1 {
				t.Errorf("row %d: %s", i/16, substitutions[i:i+16])
			}
		}
	}
}

func FuzzVerify(f *testing.F) {
	for _, s := range []string{"rl.3StKT.4T8M", "$1$rasmusle$rISCgZzpwk3UhDidwXvin0", "$5$rounds=1000$saltstring$x", "$6$$", "$1$"} {
		f.Add(s, "rasmuslerdorf")
	}
	f.Fuzz(func(t *testing.T, stored, password string) {
		if strings.Contains(stored, "rounds=") && !strings.Contains(stored, "rounds=1000$") {
			return // time
		}
		ok, err := Verify(stored, password)
		if ok && err != nil {
			t.Fatal(ok, err)
		}
		if again, err := hashAs(stored, password); err == nil && len(password) <= MaxPassword {
			if same, err := Verify(again, password); !same || err != nil {
				t.Fatalf("%q made of %q is not verified: %v, %v", again, stored, same, err)
			}
		}
	})
}

func BenchmarkVerify(b *testing.B) {
	for name, stored := range map[string]string{"DES": "rl.3StKT.4T8M", "MD5": "$1$rasmusle$rISCgZzpwk3UhDidwXvin0", "SHA-256": "$5$saltstring$x", "SHA-512": "$6$saltstring$x"} {
		b.Run(name, func(b *testing.B) {
			for b.Loop() {
				if _, err := Verify(stored, "rasmuslerdorf"); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
