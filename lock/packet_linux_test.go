package lock

import (
	"encoding/binary"
	"net/netip"
	"slices"
)

// packet is what the tests look at in an IP packet, and make one of. Names of fields are those of the RFCs.
type packet struct {
	src, dst     netip.Addr
	proto        byte
	ttl          byte
	sport, dport uint16 // of TCP and UDP; of ICMP the type and the code
	seq, ack     uint32
	flags        byte
	full         bool // its sender takes nothing: a window of 0
	payload      []byte
	// fragment is the offset in bytes of one that is not the first, more that others follow.
	fragment int
	more     bool
}

const (
	icmp4, tcp4, udp4, icmpv6 = 1, 6, 17, 58

	fin, syn, rst, psh, ackFlag = 1, 2, 4, 8, 16
)

var (
	podMAC     = []byte{2, 0, 0, 0, 0, 2}
	gatewayMAC = []byte{2, 0, 0, 0, 0, 1}
)

// frame writes the packet as Ethernet brings it to the pod.
func (k packet) frame() []byte {
	kind := uint16(0x0800)
	if k.src.Is6() {
		kind = 0x86dd
	}
	return append(binary.BigEndian.AppendUint16(slices.Concat(podMAC, gatewayMAC), kind), k.ip(k.transport())...)
}

// ip puts a header before a transport's bytes.
func (k packet) ip(body []byte) []byte {
	ttl := k.ttl
	if ttl == 0 {
		ttl = 255 // neighbour discovery takes no other (RFC 4861 section 7.1)
	}
	if k.src.Is6() {
		h := []byte{0x60, 0, 0, 0}
		h = binary.BigEndian.AppendUint16(h, uint16(len(body)))
		h = append(h, k.proto, ttl)
		return slices.Concat(h, k.src.AsSlice(), k.dst.AsSlice(), body)
	}
	offset := uint16(k.fragment / 8)
	if k.more {
		offset |= 0x2000
	}
	h := []byte{0x45, 0}
	h = binary.BigEndian.AppendUint16(h, uint16(20+len(body)))
	h = binary.BigEndian.AppendUint16(h, 0x4242)
	h = binary.BigEndian.AppendUint16(h, offset)
	h = slices.Concat(h, []byte{ttl, k.proto, 0, 0}, k.src.AsSlice(), k.dst.AsSlice())
	binary.BigEndian.PutUint16(h[10:], checksum(h))
	return append(h, body...)
}

// transport writes what is behind the IP header; a fragment that is not the first is its payload alone.
func (k packet) transport() []byte {
	if k.fragment > 0 {
		return k.payload
	}
	var b []byte
	at := 6 // of the checksum in UDP
	switch k.proto {
	case tcp4:
		b = binary.BigEndian.AppendUint16(binary.BigEndian.AppendUint16(nil, k.sport), k.dport)
		b = binary.BigEndian.AppendUint32(binary.BigEndian.AppendUint32(b, k.seq), k.ack)
		window := byte(0xff)
		if k.full {
			window = 0
		}
		b = append(b, 5<<4, k.flags, window, window, 0, 0, 0, 0)
		at = 16
	case udp4:
		b = binary.BigEndian.AppendUint16(binary.BigEndian.AppendUint16(nil, k.sport), k.dport)
		b = binary.BigEndian.AppendUint16(b, uint16(8+len(k.payload)))
		b = append(b, 0, 0)
	case icmp4, icmpv6:
		b = []byte{byte(k.sport), byte(k.dport), 0, 0}
		at = 2
	default:
		return k.payload
	}
	b = append(b, k.payload...)
	if k.proto == icmp4 {
		binary.BigEndian.PutUint16(b[at:], checksum(b))
		return b
	}
	pseudo := slices.Concat(k.src.AsSlice(), k.dst.AsSlice(), []byte{0, k.proto})
	pseudo = binary.BigEndian.AppendUint16(pseudo, uint16(len(b)))
	if !k.more {
		binary.BigEndian.PutUint16(b[at:], checksum(append(pseudo, b...)))
	}
	return b
}

// checksum is that of RFC 1071.
func checksum(b []byte) uint16 {
	var sum uint32
	for i := 0; i < len(b); i += 2 {
		sum += uint32(b[i]) << 8
		if i+1 < len(b) {
			sum += uint32(b[i+1])
		}
	}
	for sum>>16 != 0 {
		sum = sum>>16 + sum&0xffff
	}
	return ^uint16(sum)
}

// parse reads a frame that the pod sent; what is not IP is no packet.
func parse(frame []byte) (packet, bool) {
	if len(frame) < 14 {
		return packet{}, false
	}
	kind, b := binary.BigEndian.Uint16(frame[12:]), frame[14:]
	var k packet
	switch {
	case kind == 0x0800 && len(b) >= 20:
		k.src, k.dst = addr(b[12:16]), addr(b[16:20])
		k.ttl, k.proto = b[8], b[9]
		offset := binary.BigEndian.Uint16(b[6:])
		k.fragment, k.more = int(offset&0x1fff)*8, offset&0x2000 != 0
		b = b[4*int(b[0]&15):]
	case kind == 0x86dd && len(b) >= 40:
		k.src, k.dst = addr(b[8:24]), addr(b[24:40])
		k.ttl, k.proto = b[7], b[6]
		b = b[40:]
		for (k.proto == 0 || k.proto == 44) && len(b) >= 8 { // hop-by-hop options before MLD, fragment header
			if k.proto == 44 {
				offset := binary.BigEndian.Uint16(b[2:])
				k.fragment, k.more = int(offset&^7), offset&1 != 0
			}
			k.proto, b = b[0], b[8:]
		}
	default:
		return packet{}, false
	}
	k.body(b)
	return k, true
}

func (k *packet) body(b []byte) {
	k.payload = b
	switch {
	case k.fragment > 0:
	case k.proto == tcp4 && len(b) >= 20:
		k.sport, k.dport = binary.BigEndian.Uint16(b), binary.BigEndian.Uint16(b[2:])
		k.seq, k.ack, k.flags = binary.BigEndian.Uint32(b[4:]), binary.BigEndian.Uint32(b[8:]), b[13]
		k.payload = b[4*int(b[12]>>4):]
	case k.proto == udp4 && len(b) >= 8:
		k.sport, k.dport = binary.BigEndian.Uint16(b), binary.BigEndian.Uint16(b[2:])
		k.payload = b[8:]
	case (k.proto == icmp4 || k.proto == icmpv6) && len(b) >= 4:
		k.sport, k.dport = uint16(b[0]), uint16(b[1])
		k.payload = b[4:]
	}
}

func addr(b []byte) netip.Addr {
	a, _ := netip.AddrFromSlice(b)
	return a
}
