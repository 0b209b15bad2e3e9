// Points on a canvas: by the graphics card where there is one (a million of them in one call), else
// one by one. They are drawn in a random order, so that the first thousands of them show the whole.

const VERTEX = `
attribute vec2 place; attribute vec4 colour; uniform vec2 middle; uniform vec2 factor; uniform float size; varying vec4 inside;
void main() { gl_Position = vec4((place - middle) * factor, 0.0, 1.0); gl_PointSize = size; inside = colour; }`;
const FRAGMENT = `
precision mediump float; varying vec4 inside;
void main() { vec2 p = gl_PointCoord - 0.5; if (dot(p, p) > 0.25) discard; gl_FragColor = vec4(inside.rgb, 1.0); }`;

// `lassoCanvas` is a second canvas for the lasso.
export function makePainter(canvas, lassoCanvas) {
  const gl = canvas.getContext("webgl", { antialias: false, preserveDrawingBuffer: true });
  const points = gl ? makeCardPainter(gl) : makePlainPainter(canvas.getContext("2d"));
  const lassoContext = lassoCanvas.getContext("2d");
  let order = new Uint32Array();
  const painter = {
    width: 0,
    height: 0,
    setPlaces(places) {
      order = shuffle(places.length / 2);
      const shuffled = new Float32Array(places.length);
      for (let at = 0; at < order.length; at += 1) {
        shuffled[2 * at] = places[2 * order[at]];
        shuffled[2 * at + 1] = places[2 * order[at] + 1];
      }
      points.setPlaces(shuffled);
    },
    // A colour for each point: red + 256 green + 65536 blue.
    setColours(colours) {
      const shuffled = new Uint32Array(colours.length);
      for (let at = 0; at < order.length; at += 1) shuffled[at] = 0xff000000 | colours[order[at]];
      points.setColours(new Uint8Array(shuffled.buffer));
    },
    resize(width, height) {
      const ratio = Math.min(2, window.devicePixelRatio || 1);
      Object.assign(painter, { width, height });
      for (const one of [canvas, lassoCanvas]) Object.assign(one, { width: Math.round(width * ratio), height: Math.round(height * ratio) });
      lassoContext.scale(ratio, ratio);
      points.ratio = ratio;
    },
    // At most so many points: fewer while the map moves, where all of them would take too long.
    draw(view, most) {
      const half = Math.min(painter.width, painter.height) * 0.47 * view.scale;
      points.draw(view, half, painter.width, painter.height, most);
    },
    // The lasso, or a cross in the middle for those who choose by keyboard.
    drawAbove(path, isCross) {
      lassoContext.clearRect(0, 0, painter.width, painter.height);
      lassoContext.strokeStyle = "rgb(43 95 199)";
      lassoContext.lineWidth = 1.5;
      const [x, y] = [painter.width / 2, painter.height / 2];
      if (isCross) lassoContext.stroke(new Path2D(`M${x - 12} ${y}H${x - 3}M${x + 3} ${y}H${x + 12}M${x} ${y - 12}V${y - 3}M${x} ${y + 3}V${y + 12}`));
      if (path.length < 2) return;
      lassoContext.beginPath();
      path.forEach(([x, y], at) => (at ? lassoContext.lineTo(x, y) : lassoContext.moveTo(x, y)));
      lassoContext.closePath();
      lassoContext.fillStyle = "rgb(43 95 199 / 15%)";
      lassoContext.fill();
      lassoContext.stroke();
    },
  };
  return painter;
}

// The numbers below n in a random order that is always the same.
function shuffle(n) {
  const order = new Uint32Array(n);
  for (let at = 0; at < n; at += 1) order[at] = at;
  let random = 1;
  for (let at = n - 1; at > 0; at -= 1) {
    random = (Math.imul(random, 1664525) + 1013904223) >>> 0;
    const other = Math.floor((random / 2 ** 32) * (at + 1));
    const last = order[at];
    order[at] = order[other];
    order[other] = last;
  }
  return order;
}

// Points shrink where there are many, and grow as one zooms in.
const choosePointSize = (n, scale) => Math.max(1.5, Math.min(14, (n < 2000 ? 7 : n < 20000 ? 4.5 : n < 200000 ? 2.5 : 1.5) * Math.sqrt(scale)));

function makeCardPainter(gl) {
  const compile = (kind, source) => {
    const shader = gl.createShader(kind);
    gl.shaderSource(shader, source);
    gl.compileShader(shader);
    return shader;
  };
  const program = gl.createProgram();
  gl.attachShader(program, compile(gl.VERTEX_SHADER, VERTEX));
  gl.attachShader(program, compile(gl.FRAGMENT_SHADER, FRAGMENT));
  gl.linkProgram(program);
  gl.useProgram(program);
  gl.enable(gl.BLEND);
  gl.blendFunc(gl.SRC_ALPHA, gl.ONE_MINUS_SRC_ALPHA);
  const buffers = { place: gl.createBuffer(), colour: gl.createBuffer() };
  const fill = (name, data, size, kind, normalised) => {
    gl.bindBuffer(gl.ARRAY_BUFFER, buffers[name]);
    gl.bufferData(gl.ARRAY_BUFFER, data, gl.STATIC_DRAW);
    const at = gl.getAttribLocation(program, name);
    gl.enableVertexAttribArray(at);
    gl.vertexAttribPointer(at, size, kind, normalised, 0, 0);
  };
  const uniform = (name) => gl.getUniformLocation(program, name);
  let n = 0;
  let hasColours = false;
  return {
    ratio: 1,
    setPlaces(places) {
      n = places.length / 2;
      fill("place", places, 2, gl.FLOAT, false);
    },
    setColours(colours) {
      hasColours = true;
      fill("colour", colours, 4, gl.UNSIGNED_BYTE, true);
    },
    draw(view, half, width, height, most) {
      gl.viewport(0, 0, gl.drawingBufferWidth, gl.drawingBufferHeight);
      gl.clearColor(0, 0, 0, 0);
      gl.clear(gl.COLOR_BUFFER_BIT);
      if (!hasColours) return;
      gl.uniform2f(uniform("middle"), view.x, view.y);
      gl.uniform2f(uniform("factor"), (2 * half) / width, (2 * half) / height);
      gl.uniform1f(uniform("size"), choosePointSize(n, view.scale) * this.ratio);
      gl.drawArrays(gl.POINTS, 0, Math.min(n, most));
    },
  };
}

function makePlainPainter(context) {
  let places = new Float32Array();
  let colours = new Uint8Array();
  return {
    ratio: 1,
    setPlaces: (data) => (places = data),
    setColours: (data) => (colours = data),
    draw(view, half, width, height, most) {
      context.setTransform(this.ratio, 0, 0, this.ratio, 0, 0);
      context.clearRect(0, 0, width, height);
      const n = colours.length / 4;
      const size = choosePointSize(n, view.scale);
      for (let i = 0; i < Math.min(n, most); i += 1) {
        const x = width / 2 + (places[2 * i] - view.x) * half;
        const y = height / 2 - (places[2 * i + 1] - view.y) * half;
        if (x < 0 || y < 0 || x > width || y > height) continue;
        context.fillStyle = `rgb(${colours[4 * i]} ${colours[4 * i + 1]} ${colours[4 * i + 2]} / 85%)`;
        context.fillRect(x - size / 2, y - size / 2, size, size);
      }
    },
  };
}
