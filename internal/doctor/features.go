package doctor

// features is made from board/rtl8196e/kernel.fragment, by
// go test ./internal/doctor -run Fragment -update
const features = `config.gz|IKCONFIG=y IKCONFIG_PROC=y|/proc/config.gz|gwctl doctor can only guess what the kernel has
tmpfs|SHMEM=y TMPFS=y|tmpfs|/tmp, /var and /run have no limit: a program that fills them takes all memory
madvise|ADVISE_SYSCALLS=y|madvise|programs give memory back by the slower way of mapping it anew
JFFS2 summary|JFFS2_SUMMARY=y||the mount of a full /userdata takes 5 to 12 s instead of less than one
LED timer|LEDS_TRIGGER_TIMER=y|/sys/class/leds/*/trigger:timer|a blinking LED costs a process that wakes up for it
fq_codel|NET_SCHED=y NET_SCH_FQ_CODEL=y|/proc/sys/net/core/default_qdisc|bulk traffic and the radio's frames wait in one queue (pfifo_fast)
IGMP|IP_MULTICAST=y|/proc/sys/net/ipv4/igmp_qrv|no reports of IPv4 groups: a switch with IGMP snooping may hide the gateway from discovery
SYN cookies|SYN_COOKIES=y|/proc/sys/net/ipv4/tcp_syncookies|a flood of connection attempts keeps everybody from ports 22 and 8888
IPv6 route information|IPV6_ROUTE_INFO=y|/proc/sys/net/ipv6/conf/all/accept_ra_rt_info_max_plen|Thread networks behind other border routers are not reached
nftables|NETFILTER=y NETFILTER_ADVANCED=y NF_CONNTRACK=y NF_TABLES=y NF_TABLES_INET=y NF_TABLES_IPV4=y NF_TABLES_IPV6=y NFT_CT=y NFT_LIMIT=y NFT_LOG=y NF_LOG_SYSLOG=y NFT_REJECT=y|nftables|no firewall: only BRIDGE_BIND and BRIDGE_ALLOW limit who may connect
smaller tables|INET_TABLE_PERTURB_ORDER=8 LOG_BUF_SHIFT=14 SQUASHFS_FILE_DIRECT=y SQUASHFS_FRAGMENT_CACHE_SIZE=1||some 0.8 MiB of memory are taken for nothing
`
