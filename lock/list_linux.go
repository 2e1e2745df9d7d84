package lock

import "encoding/binary"

// A list is attributes as they are written: each method puts one more behind the others. Where attrs are many small things on the heap,
// it is one.
type list []byte

func (l list) header(kind uint16, length int) list {
	return binary.NativeEndian.AppendUint16(binary.NativeEndian.AppendUint16(l, uint16(4+length)), kind)
}

func (l list) data(kind uint16, data ...byte) list {
	return append(append(l.header(kind, len(data)), data...), padding[:-len(data)&3]...)
}

func (l list) name(kind uint16, text string) list {
	l = append(append(l.header(kind, len(text)+1), text...), 0)
	return append(l, padding[:-(len(text)+1)&3]...)
}

func (l list) number(kind uint16, value uint32) list {
	return binary.BigEndian.AppendUint32(l.header(kind, 4), value)
}

// nested has in write what is in the attribute: whole attributes, so that nothing is to be padded.
func (l list) nested(kind uint16, in func(list) list) list {
	begin := len(l)
	l = in(l.header(kind, 0))
	binary.NativeEndian.PutUint16(l[begin:], uint16(len(l)-begin))
	return l
}

var padding [3]byte
