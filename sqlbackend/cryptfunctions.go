package sqlbackend

import (
	"crypto/aes"
	"crypto/cipher"
	"strings"

	"github.com/dolthub/go-mysql-server/sql"
	"github.com/dolthub/go-mysql-server/sql/types"
)

// cryptFunctions are AES_ENCRYPT and AES_DECRYPT in every mode that block_encryption_mode has.
func cryptFunctions() []sql.Function {
	return []sql.Function{
		newScalar("aes_encrypt", 2, 3, always(types.LongBlob), func(ctx *sql.Context, args []any) (any, error) {
			return aesOf(ctx, "aes_encrypt", args, true)
		}),
		newScalar("aes_decrypt", 2, 3, always(types.LongBlob), func(ctx *sql.Context, args []any) (any, error) {
			return aesOf(ctx, "aes_decrypt", args, false)
		}),
	}
}

// aesOf encrypts or decrypts args[0] with the key args[1] and, but for ecb, the initialization vector args[2]. What cannot be
// the result of an encryption is NULL.
func aesOf(ctx *sql.Context, name string, args []any, encrypt bool) (any, error) {
	setting, err := ctx.GetSessionVariable(ctx, "block_encryption_mode")
	if err != nil {
		return nil, err
	}
	text, _ := setting.(string)
	parts := strings.Split(strings.ToLower(text), "-") // aes-128-ecb
	sizes := map[string]int{"128": 16, "192": 24, "256": 32}
	if len(parts) != 3 || parts[0] != "aes" || sizes[parts[1]] == 0 {
		return nil, newError(1231, "Variable 'block_encryption_mode' can't be set to the value of '%s'", text)
	}
	var data [3][]byte
	for i, a := range args {
		c, _, err := types.LongBlob.Convert(quiet(ctx), a)
		if err != nil {
			return nil, err
		}
		data[i], _ = c.([]byte)
	}
	block, err := aes.NewCipher(foldKey(data[1], sizes[parts[1]]))
	if err != nil {
		return nil, err
	}
	mode, iv := parts[2], data[2]
	switch {
	case mode == "ecb":
	case len(args) < 3:
		return nil, newError(1582, "Incorrect parameter count in the call to native function '%s'", name)
	case len(iv) < aes.BlockSize:
		return nil, newError(1882, "The initialization vector supplied to %s is too short. Must be at least %d bytes long", name, aes.BlockSize)
	default:
		iv = iv[:aes.BlockSize]
	}
	in := data[0]
	switch mode {
	case "ecb", "cbc":
		if encrypt {
			in = pad(in)
		} else if len(in) == 0 || len(in)%aes.BlockSize != 0 {
			return nil, nil
		}
		out := make([]byte, len(in))
		switch {
		case mode == "cbc" && encrypt:
			cipher.NewCBCEncrypter(block, iv).CryptBlocks(out, in)
		case mode == "cbc":
			cipher.NewCBCDecrypter(block, iv).CryptBlocks(out, in)
		default:
			crypt := block.Decrypt
			if encrypt {
				crypt = block.Encrypt
			}
			for i := 0; i < len(in); i += aes.BlockSize {
				crypt(out[i:], in[i:])
			}
		}
		if !encrypt {
			return unpad(out), nil
		}
		return out, nil
	case "ofb":
		return feedBack(block, iv, in, func(_, key, _ []byte) []byte { return key }, aes.BlockSize), nil
	case "cfb128":
		return feedBack(block, iv, in, cipherText(encrypt), aes.BlockSize), nil
	case "cfb8":
		return feedBack(block, iv, in, cipherText(encrypt), 1), nil
	case "cfb1":
		return feedBackBits(block, iv, in, encrypt), nil
	}
	return nil, newError(1231, "Variable 'block_encryption_mode' can't be set to the value of '%s'", text)
}

// foldKey makes a key of size bytes: those beyond are mixed in from the beginning.
func foldKey(key []byte, size int) []byte {
	out := make([]byte, size)
	for i, b := range key {
		out[i%size] ^= b
	}
	return out
}

// pad fills the last block as PKCS 7 says, a whole one if it is full.
func pad(in []byte) []byte {
	n := aes.BlockSize - len(in)%aes.BlockSize
	out := append(make([]byte, 0, len(in)+n), in...)
	for range n {
		out = append(out, byte(n))
	}
	return out
}

// unpad undoes pad; nil if the end is none that pad makes.
func unpad(in []byte) any {
	n := int(in[len(in)-1])
	if n == 0 || n > aes.BlockSize {
		return nil
	}
	for _, b := range in[len(in)-n:] {
		if int(b) != n {
			return nil
		}
	}
	return in[:len(in)-n]
}

// cipherText says which side of the cipher is fed back.
func cipherText(encrypt bool) func(in, key, out []byte) []byte {
	return func(in, _, out []byte) []byte {
		if encrypt {
			return out
		}
		return in
	}
}

// feedBack crypts step bytes at a time with what the register encrypts to, and shifts what next returns into it.
func feedBack(block cipher.Block, iv, in []byte, next func(in, key, out []byte) []byte, step int) []byte {
	out := make([]byte, len(in))
	register := append([]byte(nil), iv...)
	key := make([]byte, aes.BlockSize)
	for at := 0; at < len(in); at += step {
		block.Encrypt(key, register)
		end := min(at+step, len(in))
		for i := at; i < end; i++ {
			out[i] = in[i] ^ key[i-at]
		}
		if end-at < step {
			break
		}
		register = append(register[step:], next(in[at:end], key[:step], out[at:end])...)
	}
	return out
}

// feedBackBits is feedBack of the cipher text bit by bit.
func feedBackBits(block cipher.Block, iv, in []byte, encrypt bool) []byte {
	out := make([]byte, len(in))
	register := append([]byte(nil), iv...)
	key := make([]byte, aes.BlockSize)
	for bit := range 8 * len(in) {
		block.Encrypt(key, register)
		at, shift := bit/8, 7-bit%8
		from := in[at] >> shift & 1
		to := from ^ key[0]>>7
		out[at] |= to << shift
		carry := to
		if !encrypt {
			carry = from
		}
		for i := len(register) - 1; i >= 0; i-- {
			register[i], carry = register[i]<<1|carry, register[i]>>7
		}
	}
	return out
}
