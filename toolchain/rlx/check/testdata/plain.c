/* A program without a library, of what compilers like to do with delay slots:
   switch tables, calls through pointers, packed fields, products and quotients
   close together, 64-bit arithmetic, loops of loads. */
typedef unsigned u32;
typedef unsigned long long u64;
typedef unsigned char u8;

static u32 tab[64];
struct packed { u8 a; u32 b; u64 c; } __attribute__((packed));
static struct packed packed[8];

static long call3(long n, long a, long b, long c)
{
	register long v0 __asm__("$2") = n, a0 __asm__("$4") = a, a1 __asm__("$5") = b, a2 __asm__("$6") = c, a3 __asm__("$7");
	__asm__ volatile("syscall" : "+r"(v0), "=r"(a3) : "r"(a0), "r"(a1), "r"(a2) : "memory", "$8", "$9", "$10", "$11", "$12", "$13", "$14", "$15", "$24", "$25");
	return v0;
}

__attribute__((noinline)) u32 mix(u32 a, u32 b, u32 m) { return (a * b) % m + a / b * (b % m); }
__attribute__((noinline)) u64 wide(u64 a, u32 b) { return a * b + (a >> 7) + (a << 9); }
__attribute__((noinline)) int pick(int x)
{
	switch (x) {
	case 0: return 5;
	case 1: return 77;
	case 2: return x * 31;
	case 3: return tab[3];
	case 4: return tab[4] + 1;
	case 5: return 9;
	case 6: return 1234;
	case 7: return tab[tab[1] & 63];
	default: return -1;
	}
}
__attribute__((noinline)) u32 sum(const u8 *p, u32 n)
{
	u32 s = 0;
	while (n--) {
		s = s * 33 + *p++;
		tab[s & 63] ^= s;
	}
	return s;
}
__attribute__((noinline)) int unaligned(int i) { packed[i & 7].c += packed[(i + 1) & 7].b; return packed[i & 7].b++; }
__attribute__((noinline)) int deep(int n, int *p) { return n ? deep(n - 1, &n) + *p : *p; }
typedef int (*fn)(int);
static fn const fns[] = { pick, unaligned, pick };

void __start(void)
{
	u32 s = sum((const u8 *)"hello", 5);
	int k = 3;
	for (int i = 0; i < 64; i++)
		s += mix(tab[i], s | 1, 7) + fns[i % 3](i & 7) + unaligned(i) + (u32)wide(s, i) + deep(i & 3, &k);
	tab[0] = s;
	call3(4004, 1, (long)"done\n", 5);
	call3(4001, 0, 0, 0);
	for (;;)
		;
}
