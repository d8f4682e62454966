# Draws pruning_residual.svg and pruning_inverted.svg: python3 draw_pruning.py FOLDER
import sys
W=860
COL={'s':'#4c78a8','b':'#f58518'}   # stream, branch
def esc(s): return s.replace('&','&amp;').replace('<','&lt;')
class Svg:
    def __init__(self,h,title):
        self.h=h; self.o=[f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {W} {h}" font-family="sans-serif" font-size="13" role="img" aria-label="{esc(title)}">','<rect width="100%" height="100%" fill="white"/>',f'<title>{esc(title)}</title>']
    def text(self,x,y,t,anchor='middle',fill='#222',size=13): self.o.append(f'<text x="{x}" y="{y}" text-anchor="{anchor}" fill="{fill}" font-size="{size}">{esc(t)}</text>')
    def box(self,x,y,w,h,fill='#f4f4f4',stroke='#888'): self.o.append(f'<rect x="{x}" y="{y}" width="{w}" height="{h}" fill="{fill}" stroke="{stroke}"/>')
    def line(self,pts,color='#888',head=True):
        self.o.append(f'<polyline points="{" ".join(f"{a},{b}" for a,b in pts)}" fill="none" stroke="{color}" stroke-width="1.6"'+(' marker-end="url(#a)"' if head else '')+'/>')
    def matrix(self,x,y,rows,cols,row,col,rc,cc,label,sub):
        # a weight: rows are outputs, columns inputs; the removed row and column are coloured
        s=11
        for r in range(rows):
            for c in range(cols):
                f='#e8e8e8'
                if row is not None and r==row: f=COL[rc]
                if col is not None and c==col: f=COL[cc]
                self.o.append(f'<rect x="{x+c*s}" y="{y+r*s}" width="{s-1}" height="{s-1}" fill="{f}"/>')
        self.text(x+cols*s/2,y-8,label); self.text(x+cols*s/2,y+rows*s+16,sub,fill='#666',size=11)
        return x+cols*s
    def vector(self,x,y,n,k,c,label):
        s=11
        for r in range(n): self.o.append(f'<rect x="{x}" y="{y+r*s}" width="{s-1}" height="{s-1}" fill="{COL[c] if r==k else "#e8e8e8"}"/>')
        self.text(x+s/2,y-8,label)
    def done(self,path):
        self.o.insert(1,'<defs><marker id="a" viewBox="0 0 8 8" refX="7" refY="4" markerWidth="7" markerHeight="7" orient="auto"><path d="M0,0 L8,4 L0,8 z" fill="#888"/></marker></defs>')
        open(path,'w').write('\n'.join(self.o)+'\n</svg>\n')
# residual block
v=Svg(250,'A residual block: which rows and columns of its weights go together')
y=70
v.text(60,y+45,'x',size=15); 
v.matrix(120,y,6,8,3,5,'b','s','conv1','8 in, 6 out')
v.vector(240,y,6,3,'b','bn1')
v.text(290,y+38,'relu',fill='#666',size=12)
v.matrix(340,y-11,8,6,5,3,'s','b','conv2','6 in, 8 out')
v.vector(440,y-11,8,5,'s','bn2')
v.box(510,y+18,34,30); v.text(527,y+38,'+',size=16)
v.matrix(640,y,6,8,None,5,'s','s','next conv','8 in')
v.line([(70,y+40),(114,y+40)]); v.line([(212,y+40),(234,y+40)]); v.line([(255,y+34),(272,y+34)]); v.line([(308,y+34),(334,y+34)]); v.line([(410,y+34),(434,y+34)]); v.line([(456,y+34),(506,y+34)]); v.line([(548,y+34),(634,y+34)])
v.line([(90,y+40),(90,y+125),(527,y+125),(527,y+52)])
v.text(300,y+119,'shortcut',fill='#666',size=12)
v.text(20,235,'Orange: a channel inside the branch, a row of conv1, an entry of bn1, a column of conv2. Blue: a channel of the stream, in every block that adds to it.',anchor='start',size=12,fill='#444')
v.done(sys.argv[1]+'/pruning_residual.svg')
v=Svg(250,'An inverted residual: which rows and columns of its weights go together')
v.text(40,y+45,'x',size=15)
v.matrix(90,y-16,10,4,6,1,'b','s','expand','4 in, 10 out')
v.vector(180,y-16,10,6,'b','bn')
v.matrix(250,y-16,10,1,6,None,'b','b','depthwise','1 filter each')
v.vector(330,y-16,10,6,'b','bn')
v.matrix(400,y+10,4,10,1,6,'s','b','project','10 in, 4 out')
v.vector(550,y+10,4,1,'s','bn')
v.box(620,y+18,34,30); v.text(637,y+38,'+',size=16)
v.matrix(740,y,8,4,None,1,'s','s','next expand','4 in')
for a,b in [((50,y+40),(84,y+40)),((140,y+40),(174,y+40)),((196,y+40),(244,y+40)),((268,y+40),(324,y+40)),((346,y+34),(394,y+34)),((516,y+34),(544,y+34)),((566,y+34),(616,y+34)),((658,y+34),(734,y+34))]: v.line([a,b])
v.line([(66,y+40),(66,y+140),(637,y+140),(637,y+52)])
v.text(350,y+134,'shortcut',fill='#666',size=12)
v.text(20,242,'The wide channels (orange) pass through the depthwise filters one by one and go with their filter; the narrow stream (blue) as in a residual block.',anchor='start',size=12,fill='#444')
v.done(sys.argv[1]+'/pruning_inverted.svg')
